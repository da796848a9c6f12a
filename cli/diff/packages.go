package diff

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/deploy"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/workspace"
)

// packages is what the work tree changes about packages: what a deploy would do about it where the commit is deployed.
type packages struct {
	Items []deploy.Changed `json:"items"`
	// Problems are packages that could not be compared.
	Problems []packageProblem `json:"problems,omitempty"`
}

type packageProblem struct {
	// Side is before or after.
	Side    string `json:"side"`
	Where   string `json:"where,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// differs says whether there is anything to tell.
func (p *packages) differs() bool { return p != nil && len(p.Items)+len(p.Problems) > 0 }

// broken says whether the work tree has a package that cannot be composed.
func (p *packages) broken() bool {
	if p != nil {
		for _, each := range p.Problems {
			if each.Side == "after" {
				return true
			}
		}
	}
	return false
}

// packages compares the packages of both sides; nil where only some services or clusters are meant.
func (o options) packages(repo *workspace.Repo, s *sides) (*packages, error) {
	if len(o.services)+len(o.clusters) > 0 {
		return nil, nil
	}
	found, err := deploy.Between(repo, s.before, s.after)
	if err != nil {
		return nil, err
	}
	p := &packages{Items: found.Packages}
	if p.Items == nil {
		p.Items = []deploy.Changed{}
	}
	p.failed("before", found.Before)
	p.failed("after", found.After)
	if !p.differs() {
		return nil, nil
	}
	return p, nil
}

func (p *packages) failed(side string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // those that were joined here, not deeper ones
		for _, each := range joined.Unwrap() {
			p.failed(side, each)
		}
		return
	}
	var told *ui.Err
	if !errors.As(cmdutil.Explain(err), &told) {
		told = &ui.Err{Msg: err.Error(), Fix: "correct it, and see: plural validate"}
	}
	if len(told.Problems) == 0 {
		p.Problems = append(p.Problems, packageProblem{Side: side, Message: told.Error(), Fix: told.Fix})
	}
	for _, each := range told.Problems {
		p.Problems = append(p.Problems, packageProblem{side, each.Where, each.Message, each.Fix})
	}
}

// packageNames are "package/NAME".
func packageNames(p *packages) []string {
	if p == nil {
		return nil
	}
	names := make([]string, len(p.Items))
	for i, c := range p.Items {
		names[i] = "package/" + c.Name
	}
	return names
}

// packages prints what a deploy would do, and why.
func (s screen) packages(b *strings.Builder, p *packages) {
	if p == nil {
		return
	}
	run, remove := 0, 0
	for i := range p.Items {
		c := &p.Items[i]
		s.head(b, "package "+c.Name+versionsOf(c), "")
		if len(c.Files) > 0 && c.Before != "" && c.After != "" { // else they are all of them
			fmt.Fprintf(b, "  files: %s\n", cmdutil.Few(c.Files))
		}
		if c.Protected != nil {
			text := "protected no longer"
			if *c.Protected {
				text = "protected from now on"
			}
			fmt.Fprintf(b, "  %s\n", s.streams.Paint(ui.Yellow, text))
		}
		for j := range c.Steps {
			step := &c.Steps[j]
			mark, style := "+ run", ui.Green
			switch step.Action {
			case plan.Remove:
				mark, style = "- remove", ui.Red
				remove++
			case plan.Keep:
				mark, style = "= keep", ui.Yellow
			case plan.Run:
				run++
			case plan.Unchanged, plan.Skipped:
				continue // they are not among what changes
			}
			line := fmt.Sprintf("%s %s (%s): %s", mark, step.ID, step.Kind, step.Reason)
			fmt.Fprintf(b, "  %s\n", s.streams.Paint(style, ui.Clean(line)))
		}
		if len(c.Steps) == 0 {
			fmt.Fprintln(b, "  no step reads what differs")
		}
		b.WriteByte('\n')
	}
	for _, each := range p.Problems {
		title, style := "a package cannot be composed", ui.Red
		if each.Side == "before" {
			title, style = "a package could not be composed before", ui.Yellow
		}
		s.head(b, title, style)
		ui.Problem{Where: each.Where, Message: each.Message, Fix: each.Fix}.Write(b)
		b.WriteByte('\n')
	}
	if run+remove > 0 {
		fmt.Fprintf(b, "plural deploy would run %s and remove %d for this\n", count(run, "step"), remove)
	}
}

// versionsOf says where an installation comes from, and where it goes.
func versionsOf(c *deploy.Changed) string {
	switch {
	case c.Before == "" && c.After == "":
		return ""
	case c.Before == "":
		return " " + c.After + ", new"
	case c.After == "":
		return " " + c.Before + ", gone"
	case c.Before != c.After:
		return " " + c.Before + " → " + c.After
	}
	return " " + c.After
}
