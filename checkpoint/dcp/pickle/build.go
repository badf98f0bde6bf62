package pickle

import "bytes"

// change adds to a list or a dict, or gives an instance its state.
func (m *machine) change() error {
	var items []any
	var err error
	switch m.code {
	case 'a', 'b': // APPEND, BUILD
		items, err = m.pop(1)
	case 's': // SETITEM
		items, err = m.pop(2)
	default:
		items, err = m.popMark()
	}
	if err != nil {
		return err
	}
	if len(m.stack) == m.floor() {
		return m.fail(ErrFormat, "%s with nothing to change", opcodes[m.code].name)
	}
	target := m.stack[len(m.stack)-1]
	switch m.code {
	case 'b':
		return m.build(target, items[0])
	case 's', 'u': // SETITEM, SETITEMS
		return m.setItems(target, items)
	}
	list, ok := target.(*List)
	if !ok {
		return m.fail(ErrFormat, "%s to %s", opcodes[m.code].name, describe(target))
	}
	if m.code == 0x90 { // ADDITEMS
		if err := m.hash(items); err != nil {
			return err
		}
	}
	list.Items = append(list.Items, items...)
	return m.pay(2 * 16 * len(items)) // append makes room for more
}

func (m *machine) setItems(target any, items []any) error {
	d, ok := target.(*Dict)
	if !ok {
		return m.fail(ErrFormat, "%s to %s", opcodes[m.code].name, describe(target))
	}
	if len(items)%2 != 0 {
		return m.fail(ErrFormat, "%s with a key and no value", opcodes[m.code].name)
	}
	if err := m.pay(24 * len(items)); err != nil {
		return err
	}
	if d.Pairs == nil {
		d.Pairs = make([]Pair, 0, len(items)/2)
	}
	for i := 0; i < len(items); i += 2 {
		if err := m.hash(items[i : i+1]); err != nil {
			return err
		}
		d.Pairs = append(d.Pairs, Pair{items[i], items[i+1]})
	}
	return nil
}

// hash takes keys of a dict or elements of a set, each of which Python hashes anew.
func (m *machine) hash(keys []any) error {
	for _, k := range keys {
		if err := CheckKey(k); err != nil {
			return m.because(err, "%s", opcodes[m.code].name)
		}
		if t, ok := k.(Tuple); ok {
			if err := m.pay(16 * len(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *machine) build(target, state any) error {
	s, ok := target.(State)
	if !ok {
		return m.fail(ErrForbidden, "a state for %s is refused", describe(target))
	}
	if err := m.pay(stateBytes(state)); err != nil {
		return err
	}
	if err := s.SetState(state); err != nil {
		return m.because(err, "the state of %s", describe(target))
	}
	return nil
}

// instance pushes a global, or what one makes.
func (m *machine) instance() error {
	switch m.code {
	case 'c': // GLOBAL
		module, name, _ := bytes.Cut(m.raw, []byte("\n"))
		return m.global(string(module), string(name))
	case 'Q': // BINPERSID
		id, err := m.pop(1)
		if err != nil {
			return err
		}
		v, err := m.o.Persistent(id[0])
		if err != nil {
			return m.because(err, "a persistent id")
		}
		return m.push(64, v)
	}
	two, err := m.pop(2)
	if err != nil {
		return err
	}
	if m.code == 0x93 { // STACK_GLOBAL
		module, ok := two[0].(string)
		name, also := two[1].(string)
		if !ok || !also {
			return m.fail(ErrFormat, "STACK_GLOBAL of %s and %s", describe(two[0]), describe(two[1]))
		}
		return m.global(module, name)
	}
	args, ok := two[1].(Tuple)
	if !ok {
		return m.fail(ErrFormat, "%s with %s for arguments", opcodes[m.code].name, describe(two[1]))
	}
	class, ok := two[0].(*Class)
	if !ok {
		return m.fail(ErrForbidden, "a call of %s is refused", describe(two[0]))
	}
	if class.Make == nil {
		return m.fail(ErrForbidden, "a call of %s is refused", class.Name)
	}
	if err := m.pay(copied(args)); err != nil {
		return err
	}
	v, err := class.Make(args)
	if err != nil {
		return m.because(err, "%s", class.Name)
	}
	return m.push(96+16*len(args), v)
}

// copied is the memory that copies of the content of values take.
func copied(values []any) (n int) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case Tuple:
			n += 16 * len(v)
		case *List:
			n += 16 * len(v.Items)
		}
	}
	return n
}

// stateBytes is the memory that an instance may take for a state: for its attributes, and for what they hold.
func stateBytes(state any) (n int) {
	switch state := state.(type) {
	case Tuple:
		return copied(state)
	case *Dict:
		for _, p := range state.Pairs {
			if _, text := p.Value.(string); text {
				continue // taken over
			}
			n += copied([]any{p.Value})
		}
		return n + 64*len(state.Pairs)
	}
	return 0
}

func (m *machine) global(module, name string) error {
	class := m.o.class(module, name)
	if class == nil {
		return m.refuseGlobal(module, name)
	}
	return m.push(0, class)
}

// describe says what kind of value v is, never how it looks inside: it may be a circle.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case string:
		return "a text"
	case []byte:
		return "bytes"
	case Tuple:
		return "a tuple"
	case *List:
		return "a list"
	case *Dict:
		return "a dict"
	case *Class:
		return v.Name
	}
	return "an instance"
}
