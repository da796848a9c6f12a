package console

import "github.com/pluralsh/plural/cli/tui/pane"

// places are what was looked at, in the order of looking, to go back and forth between.
type places struct {
	seen []pane.Open
	at   int
	// going says that the next visit is one to where at points.
	going bool
	// typed are the commands of the command line.
	typed []string
}

const maxPlaces = 100

func (p *places) visit(o pane.Open) {
	if o.Pane == "" {
		return
	}
	if p.going {
		p.going = false
		return
	}
	if len(p.seen) > 0 && p.seen[p.at] == o {
		return
	}
	if len(p.seen) > 0 {
		p.seen = p.seen[:p.at+1]
	}
	p.seen = append(p.seen, o)
	p.seen = p.seen[max(0, len(p.seen)-maxPlaces):]
	p.at = len(p.seen) - 1
}

// step is the place by steps before (negative) or behind, if there is one.
func (p *places) step(by int) (pane.Open, bool) {
	if to := p.at + by; to >= 0 && to < len(p.seen) {
		p.at, p.going = to, true
		return p.seen[to], true
	}
	return pane.Open{}, false
}

// last is the place that was looked at before this one. Asked again it is this one.
func (p *places) last() (pane.Open, bool) {
	if p.at == 0 {
		return pane.Open{}, false
	}
	return p.seen[p.at-1], true
}

// said keeps a command for the arrow keys.
func (p *places) said(line string) {
	if line == "" || len(p.typed) > 0 && p.typed[len(p.typed)-1] == line {
		return
	}
	p.typed = append(p.typed, line)
	p.typed = p.typed[max(0, len(p.typed)-maxPlaces):]
}
