package conf

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Limits of what is read, far above real configurations.
const (
	maxFile       = 8 << 20
	maxProperties = 100_000 // over all files
	maxIncludes   = 32      // files that one file may include, counted with what those include
	maxDepth      = 16      // elements in elements
)

// Source is one file of a configuration.
type Source struct {
	// Name is how messages call it, usually its path.
	Name string
	Data []byte
	// Include gives the file that an xi:include names. nil refuses includes.
	Include func(href string) (Source, error)
}

// Parse reads files in order: a later one overrides an earlier one, unless that marked the key as final.
// getenv gives the values of ${env.NAME}; nil defines none. Errors name the file, the line and the property.
func Parse(getenv func(string) string, files ...Source) (*Config, error) {
	c := &Config{properties: map[string]property{}, getenv: getenv}
	for _, f := range files {
		p := parser{config: c, includes: maxIncludes}
		if err := p.file(f); err != nil {
			return nil, fmt.Errorf("conf.Parse: %w", err)
		}
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("conf.Parse: %w", err)
	}
	return c, nil
}

type parser struct {
	config   *Config
	includes int // how many are left
}

func (p *parser) file(f Source) error {
	if len(f.Data) > maxFile {
		return fmt.Errorf("%s: %d bytes: a configuration has at most %d", f.Name, len(f.Data), maxFile)
	}
	d := document{parser: p, source: f, xml: xml.NewDecoder(bytes.NewReader(f.Data))}
	d.xml.CharsetReader = func(charset string, _ io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("encoding %q is not read: save the file as UTF-8", charset)
	}
	if err := d.read(); err != nil {
		line, _ := d.xml.InputPos()
		return fmt.Errorf("%s:%d: %w", filepath.Base(f.Name), line, err)
	}
	return nil
}

// document reads one file; what it finds goes into the parser's Config.
type document struct {
	*parser
	source Source
	xml    *xml.Decoder
	depth  int
	root   bool // the root element was seen
}

func (d *document) read() error {
	for {
		token, err := d.xml.Token()
		switch {
		case err == io.EOF && !d.root:
			return errors.New("the file is empty: want <configuration>")
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := d.token(token); err != nil {
			return err
		}
	}
}

func (d *document) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.Directive:
		return refuseDoctype(t)
	case xml.StartElement:
		return d.element(t)
	case xml.EndElement:
		d.depth--
	}
	return nil
}

// refuseDoctype refuses declarations of entities, which can grow a small file without bounds or name files.
func refuseDoctype(t xml.Directive) error {
	if bytes.ContainsRune(t, '[') || bytes.Contains(bytes.ToUpper(t), []byte("ENTITY")) {
		return errors.New("a DOCTYPE with declarations is refused: write the values out")
	}
	return nil
}

func (d *document) element(t xml.StartElement) error {
	name := t.Name.Local
	if !d.root && name != "configuration" {
		return fmt.Errorf("root element <%s>: want <configuration>", name)
	}
	d.root = true
	switch name {
	case "property":
		return d.property(t)
	case "include":
		return d.include(t)
	}
	if d.depth++; d.depth > maxDepth { // any other element is looked through, as Hadoop does
		return fmt.Errorf("more than %d elements in each other", maxDepth)
	}
	return nil
}

func (d *document) property(t xml.StartElement) error {
	line, _ := d.xml.InputPos()
	p := property{where: fmt.Sprintf("%s:%d", filepath.Base(d.source.Name), line)}
	var name string
	hasValue := false
	set := func(field, text string) {
		switch field {
		case "name":
			name = strings.TrimSpace(text)
		case "value":
			p.value, hasValue = text, true
		case "final":
			p.final = strings.TrimSpace(text) == "true"
		}
	}
	for _, a := range t.Attr {
		set(a.Name.Local, a.Value)
	}
	if err := d.fields(set); err != nil {
		if name != "" {
			return fmt.Errorf("property %.100s: %w", name, err)
		}
		return err
	}
	if name == "" || !hasValue {
		return nil // as Hadoop does
	}
	return d.config.add(canonical(name), p)
}

// fields reads what lies in a <property> up to its end.
func (d *document) fields(set func(field, text string)) error {
	for {
		token, err := d.xml.Token()
		if err != nil {
			return unexpectedEnd(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			text, err := d.text()
			if err != nil {
				return err
			}
			set(t.Name.Local, text)
		case xml.EndElement:
			return nil
		}
	}
}

// text returns the characters up to the end of the element that has begun.
func (d *document) text() (string, error) {
	var text strings.Builder
	for {
		token, err := d.xml.Token()
		if err != nil {
			return "", unexpectedEnd(err)
		}
		switch t := token.(type) {
		case xml.CharData:
			text.Write(t)
		case xml.StartElement:
			return "", fmt.Errorf("<%s> inside a field: a field holds text only", t.Name.Local)
		case xml.EndElement:
			return text.String(), nil
		}
	}
}

func unexpectedEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *document) include(t xml.StartElement) error {
	href := ""
	for _, a := range t.Attr {
		if a.Name.Local == "href" {
			href = a.Value
		}
	}
	if scheme, _, ok := strings.Cut(href, "://"); ok && scheme != "file" {
		return fmt.Errorf("include %.100q: only local files are included", href)
	}
	if href == "" || d.source.Include == nil {
		return fmt.Errorf("include %.100q: includes are not read here", href)
	}
	if d.includes--; d.includes < 0 {
		return fmt.Errorf("include %.100q: more than %d files, or a circle", href, maxIncludes)
	}
	f, err := d.source.Include(href)
	if err != nil {
		return fmt.Errorf("include %.100q: %w", href, err)
	}
	if err := d.file(f); err != nil {
		return fmt.Errorf("included: %w", err)
	}
	return d.xml.Skip()
}

func (c *Config) add(key string, p property) error {
	old, exists := c.properties[key]
	if exists && old.final {
		return nil
	}
	if !exists && len(c.properties) == maxProperties {
		return fmt.Errorf("property %.100s: more than %d properties", key, maxProperties)
	}
	c.properties[key] = p
	return nil
}
