package terraform

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"
)

// Summary is what a plan would do.
type Summary struct {
	// Add, Change and Destroy count resources; Replace counts those that are destroyed and made anew, which are in no
	// other count.
	Add, Change, Destroy, Replace int
	// Changes has each of them, and the outputs that change, in the order of their addresses.
	Changes []Change
	// Empty says that nothing would change, outputs included.
	Empty bool
}

// Change is what happens to one resource or output.
type Change struct {
	// Address is a resource's, or "output.NAME".
	Address string `json:"address"`
	// Action is create, update, delete, replace, forget, read or import.
	Action string `json:"action"`
	// HalfMade says that the resource is replaced, or removed, because a run was stopped while it made it.
	HalfMade bool `json:"halfMade,omitempty"`
}

// Destroys are the addresses of what a plan destroys or replaces. What was only half made is not among them.
func (s *Summary) Destroys() []string {
	var out []string
	for _, c := range s.Changes {
		if !c.HalfMade && (c.Action == "delete" || c.Action == "replace") && !strings.HasPrefix(c.Address, "output.") {
			out = append(out, c.Address)
		}
	}
	return out
}

// Output is one that a module gives.
type Output struct {
	// Value is what JSON can say; whole numbers are int64, others float64.
	Value any
	// Secret says that the module calls it sensitive, or that it holds what is secret in an input.
	Secret bool
}

// Result is what there is after a run, and also after one that failed.
type Result struct {
	Outputs map[string]Output
	// State is in clear; nil where a backend keeps it, and where nothing was ever made.
	State []byte
}

// Plan works out what would change, and keeps the plan for Apply. A plan that destroys is none that fails: see Destroys.
func (w *Work) Plan(ctx context.Context) (*Summary, error) {
	w.plan = nil
	if err := w.ask(ctx, "plan", "-out="+planFile); err != nil {
		return nil, err
	}
	program, err := w.reading()
	if err != nil {
		return nil, err
	}
	plan, err := program.ShowPlanFile(ctx, planFile)
	if err != nil {
		return nil, w.reads(ctx, "plan", err)
	}
	if err := w.known(plan); err != nil {
		return nil, err
	}
	w.plan = summarise(plan)
	return w.plan, nil
}

// known refuses inputs that the module has no variable for: terraform itself only warns of those.
func (w *Work) known(plan *tfjson.Plan) error {
	var variables []string
	if plan.Config != nil && plan.Config.RootModule != nil {
		variables = slices.Sorted(maps.Keys(plan.Config.RootModule.Variables))
	}
	for _, inputs := range []map[string]any{w.inputs, w.secret} {
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			if !slices.Contains(variables, name) {
				return &InputError{name, "the module has no such variable", "name one that it has: " +
					cmp.Or(strings.Join(variables, ", "), "it has none")}
			}
		}
	}
	return nil
}

func summarise(plan *tfjson.Plan) *Summary {
	s := &Summary{}
	for _, r := range plan.ResourceChanges {
		if r.Change == nil {
			continue
		}
		c := Change{Address: r.Address, HalfMade: r.ActionReason == tfjson.ActionReasonReplaceBecauseTainted || r.DeposedKey != ""}
		switch actions := r.Change.Actions; {
		case actions.Create():
			s.Add++
			c.Action = "create"
		case actions.Update():
			s.Change++
			c.Action = "update"
		case actions.Replace():
			s.Replace++
			c.Action = "replace"
		case actions.Delete():
			s.Destroy++
			c.Action = "delete"
		case actions.Forget():
			c.Action = "forget"
		case actions.Read():
			c.Action = "read"
		case r.Change.Importing != nil:
			c.Action = "import"
		case r.PreviousAddress != "":
			c.Action = "move"
		default:
			continue
		}
		s.Changes = append(s.Changes, c)
	}
	for name, output := range plan.OutputChanges {
		if output != nil && !output.Actions.NoOp() {
			s.Changes = append(s.Changes, Change{Address: "output." + name, Action: string(output.Actions[0])})
		}
	}
	slices.SortStableFunc(s.Changes, func(a, b Change) int { return cmp.Compare(a.Address, b.Address) })
	s.Empty = len(s.Changes) == 0
	return s
}

// Apply does what the last Plan said, or what a new one says. It fails with a *DestroyError, before anything is done,
// when that destroys and the module may not. The Result is never nil; when ctx ends terraform is asked to stop.
func (w *Work) Apply(ctx context.Context) (*Result, error) {
	if w.plan == nil {
		if _, err := w.Plan(ctx); err != nil {
			return w.result(ctx, err)
		}
	}
	plan := w.plan
	w.plan = nil
	if destroys := plan.Destroys(); len(destroys) > 0 && !w.allowed {
		return w.result(ctx, &DestroyError{Addresses: destroys})
	}
	if plan.Empty {
		return w.result(ctx, w.remove(planFile))
	}
	heard := &hearing{log: w.log, known: true}
	err := w.failed("apply", heard, w.run(ctx, "apply", []string{"apply", "-json", "-auto-approve", planFile}, heard.json))
	return w.result(ctx, errors.Join(err, w.remove(planFile)))
}

// Destroy takes away all that the state has, whatever AllowDestroy says. The Result is as Apply's.
func (w *Work) Destroy(ctx context.Context) (*Result, error) {
	w.plan = nil
	if !w.HasBackend() {
		if info, err := os.Stat(filepath.Join(w.module(), stateFile)); err != nil || info.Size() == 0 {
			return w.result(ctx, nil) // nothing was ever made
		}
	}
	return w.result(ctx, w.ask(ctx, "destroy", "-auto-approve"))
}

// Unlock removes the lock that a backend has under the id of a *LockedError.
func (w *Work) Unlock(ctx context.Context, id string) error {
	heard := &hearing{log: w.log}
	return w.failed("force-unlock", heard, w.run(ctx, "force-unlock", []string{"force-unlock", "-force", "--", id}, heard.text))
}

// Forget removes the state from the folder: the caller has put it where it is kept.
func (w *Work) Forget() error {
	if err := w.remove(stateFile, asideFile, stateFile+".backup"); err != nil {
		return fmt.Errorf("forget terraform state: %w", err)
	}
	return nil
}

// Close removes what is secret in the folder but the state, and lets others work there. It may be called twice.
func (w *Work) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	err := w.remove(planFile, inputsFile, secretsFile, backendConfig, stateFile+".backup", filepath.Join(dataFolder, stateFile))
	if err := errors.Join(err, w.hold.drop()); err != nil {
		return fmt.Errorf("leave terraform's folder: %w", err)
	}
	return nil
}

// ask runs a command that takes the inputs. Their files are there while it runs.
func (w *Work) ask(ctx context.Context, during string, args ...string) (err error) {
	args = append([]string{during, "-json"}, args...)
	for _, file := range []struct {
		name   string
		inputs map[string]any
	}{{inputsFile, w.inputs}, {secretsFile, w.secret}} {
		raw, err := json.Marshal(file.inputs)
		if err != nil {
			return fmt.Errorf("encode terraform inputs: %w", err)
		}
		if err := w.write(file.name, raw); err != nil {
			return err
		}
		args = append(args, "-var-file="+file.name)
	}
	defer func() { err = errors.Join(err, w.remove(inputsFile, secretsFile)) }()
	heard := &hearing{log: w.log}
	return w.failed(during, heard, w.run(ctx, during, args, heard.json))
}

// failed is what a command's end means.
func (w *Work) failed(during string, heard *hearing, err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && !errors.As(err, new(*StoppedError)) {
		return heard.failure(during, err)
	}
	return err
}

// reading is terraform as it answers questions: those take no lock and write nothing, so it does no harm to kill it.
func (w *Work) reading() (*tfexec.Terraform, error) {
	program, err := tfexec.NewTerraform(w.module(), w.tool.Path)
	if err == nil {
		err = program.SetEnv(environmentMap(w.env))
	}
	if err != nil {
		return nil, fmt.Errorf("ask terraform: %w", err)
	}
	return program, nil
}

// reads is the error of a question.
func (w *Work) reads(ctx context.Context, during string, err error) error {
	if ctx.Err() != nil {
		return &StoppedError{During: during, Cause: context.Cause(ctx)}
	}
	return &FailedError{During: during, Summary: w.log.clean(err.Error())}
}

// result is what there is after a run that ended so. The state is given whatever happened: it may be all that is known
// of what was made.
func (w *Work) result(ctx context.Context, failed error) (*Result, error) {
	// It is short, and needed most when a run was stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answers)
	defer cancel()
	result := &Result{Outputs: map[string]Output{}}
	if !w.HasBackend() {
		raw, err := os.ReadFile(filepath.Join(w.module(), stateFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return result, errors.Join(failed, fmt.Errorf("read terraform state: %w", err))
		}
		state, err := read(raw)
		if err != nil {
			return result, errors.Join(failed, err)
		}
		state.secrets(w.log.keep)
		if state == nil {
			return result, w.cleaned(failed)
		}
		result.State = raw
	}
	outputs, err := w.outputs(ctx)
	result.Outputs = outputs
	return result, errors.Join(w.cleaned(failed), err)
}

// cleaned hides what has turned out to be secret since the error was made.
func (w *Work) cleaned(err error) error {
	var failed *FailedError
	if errors.As(err, &failed) {
		failed.Summary, failed.Detail = w.log.clean(failed.Summary), w.log.clean(failed.Detail)
	}
	return err
}

// outputs are those in the state.
func (w *Work) outputs(ctx context.Context) (map[string]Output, error) {
	program, err := w.reading()
	if err != nil {
		return nil, err
	}
	told, err := program.Output(ctx)
	if err != nil {
		return nil, w.reads(ctx, "output", err)
	}
	outputs := make(map[string]Output, len(told))
	for name, output := range told {
		value, err := decode(output.Value)
		if err != nil {
			return nil, fmt.Errorf("read terraform output %q: %w", name, err)
		}
		secret := output.Sensitive || w.log.has(value)
		if secret {
			w.log.keep(value)
		}
		outputs[name] = Output{Value: value, Secret: secret}
	}
	return outputs, nil
}

// decode is a value of JSON whose whole numbers stay whole.
func decode(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return numbers(value)
}

func numbers(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = numbers(v[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}
