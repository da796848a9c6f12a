package ui

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"charm.land/huh/v2"
)

// Question asks for one value that a flag could give.
type Question struct {
	// Flag is the flag's name without dashes.
	Flag string
	// Title is the question; Help says what the value is for.
	Title, Help string
	// Value holds the default and takes the answer.
	Value *string
	// Wanted is the only answer that will do, where it is a confirmation.
	Wanted string
	// Check says what is wrong with an answer; nil accepts all.
	Check func(string) error
	// Secret answers are not shown.
	Secret bool
	// Optional questions are left at their default where nobody can be asked.
	Optional bool
}

// ToConfirm begins the line by which a dry run says what has to be confirmed: what follows is what a person is to type, or to give by
// the flag. The console reads it.
const ToConfirm = "to be confirmed: --confirm="

// Prompter asks people, where there are any.
type Prompter struct {
	streams *Streams
	noInput bool
}

// NewPrompter asks on s, and nobody at all with noInput.
func NewPrompter(s *Streams, noInput bool) *Prompter { return &Prompter{streams: s, noInput: noInput} }

// Able says whether somebody can be asked.
func (p *Prompter) Able() bool {
	return !p.noInput && p.streams.InTTY && p.streams.ErrTTY
}

// Ask fills in the questions' values. Where nobody can be asked, a question that is not optional and has no default is
// an error that names its flag.
func (p *Prompter) Ask(ctx context.Context, questions []Question) error {
	if !p.Able() {
		return missing(questions)
	}
	fields := make([]huh.Field, len(questions))
	for i, q := range questions {
		input := huh.NewInput().Title(q.Title).Description(q.Help).Value(q.Value)
		if q.Secret {
			input = input.EchoMode(huh.EchoModePassword)
		}
		if q.Check != nil {
			input = input.Validate(q.Check)
		}
		fields[i] = input
	}
	return p.run(ctx, fields...)
}

// Confirm asks a yes-or-no question whose answer a flag can give too; no is what just pressing enter says.
func (p *Prompter) Confirm(ctx context.Context, question, flag string) (bool, error) {
	if !p.Able() {
		return false, &Err{Msg: "nobody can be asked: " + question, Fix: "give " + flag, Doc: DocNoInput}
	}
	yes := false
	err := p.run(ctx, huh.NewConfirm().Title(question).Value(&yes))
	return yes, err
}

func (p *Prompter) run(ctx context.Context, fields ...huh.Field) error {
	form := huh.NewForm(huh.NewGroup(fields...)).
		WithInput(p.streams.In).WithOutput(p.streams.ErrOut).WithAccessible(p.streams.Plain)
	err := form.RunWithContext(ctx)
	if errors.Is(err, huh.ErrUserAborted) {
		return context.Canceled
	}
	return err
}

func missing(questions []Question) error {
	var flags, given []string
	for _, q := range questions {
		if q.Optional || *q.Value != "" {
			continue
		}
		flag := "--" + q.Flag
		flags, given = append(flags, flag), append(given, flag)
		if q.Wanted != "" {
			given[len(given)-1] += "=" + q.Wanted
		}
	}
	if len(flags) == 0 {
		return nil
	}
	return &Err{
		Msg: fmt.Sprintf("nothing said what %s should be, and nobody can be asked", strings.Join(flags, ", ")),
		Fix: "give " + strings.Join(given, " and "), Doc: DocNoInput,
	}
}
