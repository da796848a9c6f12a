package values

// envWays are the ways to change an env file.
func (e *edit) envWays() []way {
	n := e.last()
	var ways []way
	switch {
	case e.leaf == nil:
		parent, i := e.position()
		start := lineStart(e.text, parent.entries[i].key.start)
		ways = append(ways, e.splice(start, n.end+len(nextLine(e.text[n.end:])), ""))
	case len(e.rest) == 0:
		for _, form := range envForms(e.leaf.text, n.style) {
			ways = append(ways, e.splice(n.start, n.end, form))
		}
	default:
		for _, form := range envForms(e.leaf.text, plain) {
			ways = append(ways, e.insertLines(len(e.text), []string{e.rest[0].key + "=" + form}))
		}
	}
	return ways
}
