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
// empty), innermost first. A variable that nothing defines stays as it is written.
func (c *Config) expand(value string) (string, error) {
	done := 0 // what lies before it holds no variable that can be replaced
	for n := 0; ; n++ {
		start, end := innermost(value, done)
		if start < 0 {
			return value, nil
		}
		if n == maxSubstitutions {
			return "", fmt.Errorf("more than %d variables, or a circle, in %.60q", maxSubstitutions, value)
		}
		text, ok := c.variable(value[start+2 : end])
		if !ok {
			done, n = end+1, n-1
			continue
		}
		if len(value)+len(text) > maxValue {
			return "", fmt.Errorf("more than %d bytes once the variables of %.60q are replaced", maxValue, value)
		}
		value = value[:start] + text + value[end+1:]
		done = min(done, start)
	}
}

// innermost finds the first ${name} at or after from whose name holds no other one.
func innermost(s string, from int) (start, end int) {
	start = -1
	for i := from; i < len(s); i++ {
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
