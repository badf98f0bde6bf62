package conf

import (
	"fmt"
	"strings"
)

// maxSubstitutions bounds how many variables one value may refer to, directly or through others: as many
// as Hadoop allows. It also ends circles.
const maxSubstitutions = 20

// maxValue bounds a value after its variables were replaced, in bytes.
const maxValue = 1 << 20

// expand replaces ${key}, ${env.NAME}, ${env.NAME-default} (not set) and ${env.NAME:-default} (not set or
// empty), innermost first. As in Hadoop, the first variable that nothing defines stays as it is written, with all
// behind it, and a value that refers to itself stays whole.
func (c *Config) expand(value string) (string, error) {
	expanded := value
	for n := 0; ; n++ {
		start, end := innermost(expanded)
		if start < 0 {
			return expanded, nil
		}
		if n == maxSubstitutions {
			return "", fmt.Errorf("more than %d variables, or a circle, in %.60q", maxSubstitutions, value)
		}
		text, ok := c.variable(expanded[start+2 : end])
		if !ok {
			return expanded, nil
		}
		if strings.Contains(text, expanded[start:end+1]) {
			return value, nil
		}
		if len(expanded)+len(text) > maxValue {
			return "", fmt.Errorf("more than %d bytes once the variables of %.60q are replaced", maxValue, value)
		}
		expanded = expanded[:start] + text + expanded[end+1:]
	}
}

// innermost finds the first ${name} whose name holds no other one.
func innermost(s string) (start, end int) {
	start = -1
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '{':
			start = i
			i++
		case s[i] == '}' && start >= 0 && i > start+2:
			return start, i
		case s[i] == '}' || s[i] == '$':
			start = -1
		}
	}
	return -1, -1
}

func (c *Config) variable(name string) (string, bool) {
	if name, ok := strings.CutPrefix(name, "env."); ok {
		return c.environment(name)
	}
	switch name {
	case "user.name":
		return c.environment("USER")
	case "user.home":
		return c.environment("HOME")
	}
	p, ok := c.properties[canonical(name)]
	return p.value, ok
}

func (c *Config) environment(name string) (string, bool) {
	name, def, hasDefault := strings.Cut(name, "-")
	name = strings.TrimSuffix(name, ":")
	if c.getenv != nil {
		// An environment is asked by a function that cannot tell empty from not set: both forms of a
		// default apply to either.
		if v := c.getenv(name); v != "" {
			return v, true
		}
	}
	return def, hasDefault
}
