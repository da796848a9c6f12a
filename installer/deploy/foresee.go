package deploy

import (
	"context"
	"fmt"
	"os"

	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/terraform"
)

// Foreseen is what terraform would do in one step, or why that cannot be told now.
type Foreseen struct {
	*terraform.Summary
	Err error
}

// Foresee asks terraform what it would do in each step that is due and whose inputs are known. Nothing is made, and what a
// killed run left on this machine is not looked at.
func (d *Deploy) Foresee(ctx context.Context) (map[plan.ID]Foreseen, error) {
	out := map[plan.ID]Foreseen{}
	for i := range d.plan.Steps {
		s := &d.plan.Steps[i]
		tool := d.tools[s.ID]
		if s.Action != plan.Run || len(s.Waiting) > 0 || tool == nil {
			continue
		}
		summary, err := d.foresee(ctx, s.ID, tool)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out[s.ID] = Foreseen{summary, err}
	}
	return out, nil
}

func (d *Deploy) foresee(ctx context.Context, id plan.ID, tool *terraform.Tool) (_ *terraform.Summary, err error) {
	_, step, err := d.world.compose(id)
	if err != nil {
		return nil, err
	}
	files, err := d.world.payload(id.Installation(), step.Terraform.Path)
	if err != nil {
		return nil, err
	}
	state := ""
	if was := d.done(id); was != nil {
		state = was.State
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make room for terraform: %w", err)
	}
	dir, err := os.MkdirTemp(d.Dir, "foresee-")
	if err != nil {
		return nil, fmt.Errorf("make room for terraform: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it has a state in clear, which nobody else may read
	work, err := d.prepare(ctx, id, tool, step, files, state, dir, nil, func(string) {})
	if err != nil {
		return nil, err
	}
	defer func() { _ = work.Close() }() // it holds a lock, which ends with the process at the latest
	if err := d.atHome(id, work); err != nil {
		return nil, err
	}
	return work.Plan(ctx)
}
