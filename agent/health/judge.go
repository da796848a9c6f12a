package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/internal/boundcel"
)

const (
	// maxMessage is the longest message that a rule gives, in bytes.
	maxMessage = 1 << 10
	// scriptPatience is how long a verdict waits for a script, with the scripts that are before it.
	scriptPatience = 10 * time.Second
	// self is what an expression calls the live object.
	self = "self"
)

// Rule judges the objects of one kind, in any version. It has expressions of CEL over the live object as `self`, or a
// Lua script as Argo CD's health.lua.
type Rule struct {
	Group, Kind string
	// Each is true or false. The first that is true in the order degraded, healthy, progressing decides; an object for
	// which none is is progressing.
	Healthy, Degraded, Progressing string
	// Message gives the text of the message. Empty: none.
	Message string
	// Lua is a script that gives status and message. It excludes the expressions.
	Lua string
}

// Scripts runs Lua outside this process. An error is about the machinery or the script, never about the object.
type Scripts interface {
	Health(ctx context.Context, script string, obj *unstructured.Unstructured) (Status, error)
}

// RuleError is a rule that cannot be used.
type RuleError struct {
	Kind schema.GroupKind
	// Field is the one that is wrong, as people write it: "kind", "healthy", "degraded", "progressing", "message" or "lua".
	Field string
	Cause error
	Fix   string
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("health rule for %s: %s: %v (%s)", e.Kind, e.Field, e.Cause, e.Fix)
}

// Unwrap gives the cause.
func (e *RuleError) Unwrap() error { return e.Cause }

// Judge judges objects by rules, and by Of where there is none. It does not change, and is safe for concurrent use. A
// nil Judge is Of alone.
type Judge struct {
	rules map[schema.GroupKind]rule
	lua   Scripts
}

// rule is a Rule, ready for use.
type rule struct {
	verdicts []verdict // in the order in which they are asked
	message  *Expression
	lua      string
}

// verdict is the phase of an object for which an expression is true.
type verdict struct {
	phase Phase
	field string
	when  *Expression
}

// NewJudge compiles rules; the first rule of a kind counts. An error is a *RuleError. lua may be nil when no rule has a
// script.
func NewJudge(rules []Rule, lua Scripts) (*Judge, error) {
	env, err := boundcel.Environment(self)
	if err != nil {
		return nil, err
	}
	judge := &Judge{rules: make(map[schema.GroupKind]rule, len(rules)), lua: lua}
	for _, r := range rules {
		kind := schema.GroupKind{Group: r.Group, Kind: r.Kind}
		ready, err := r.compile(env, kind)
		if err != nil {
			return nil, err
		}
		if ready.lua != "" && lua == nil {
			return nil, &RuleError{kind, "lua", errors.New("nothing here runs Lua"), "write the rule in CEL"}
		}
		if _, earlier := judge.rules[kind]; !earlier {
			judge.rules[kind] = ready
		}
	}
	return judge, nil
}

func (r Rule) compile(env *cel.Env, kind schema.GroupKind) (rule, error) {
	hasText := r.Healthy != "" || r.Degraded != "" || r.Progressing != ""
	switch {
	case kind.Kind == "":
		return rule{}, &RuleError{kind, "kind", errors.New("it is empty"), "name the kind as KIND.GROUP"}
	case kind == schema.GroupKind{Kind: "Secret"}:
		// A rule sees the whole object, and its message is shown to people.
		return rule{}, &RuleError{kind, "kind", errors.New("what a Secret holds is no rule's to read"), "judge what uses the Secret"}
	case r.Lua != "" && (hasText || r.Message != ""):
		return rule{}, &RuleError{kind, "lua", errors.New("the rule has expressions too"), "keep the script or the expressions"}
	case len(r.Lua) > MaxText:
		return rule{}, &RuleError{kind, "lua", fmt.Errorf("%d bytes are more than the %d of a script", len(r.Lua), MaxText), "shorten it"}
	case r.Lua != "":
		return rule{lua: r.Lua}, nil
	case !hasText:
		return rule{}, &RuleError{kind, "healthy", errors.New("it is empty"), "say with an expression when the object is healthy"}
	}
	return r.expressions(env, kind)
}

func (r Rule) expressions(env *cel.Env, kind schema.GroupKind) (rule, error) {
	var ready rule
	for _, v := range []struct {
		phase       Phase
		field, text string
	}{{Degraded, "degraded", r.Degraded}, {Healthy, "healthy", r.Healthy}, {Progressing, "progressing", r.Progressing}} {
		if v.text == "" {
			continue
		}
		when, err := compile(env, v.text, cel.BoolType)
		if err != nil {
			return rule{}, &RuleError{kind, v.field, err, "write an expression of CEL over `self` that is true or false"}
		}
		ready.verdicts = append(ready.verdicts, verdict{v.phase, v.field, when})
	}
	if r.Message != "" {
		message, err := compile(env, r.Message, cel.StringType)
		if err != nil {
			return rule{}, &RuleError{kind, "message", err, "write an expression of CEL over `self` that gives text"}
		}
		ready.message = message
	}
	return ready, nil
}

// Of judges one live object. It never fails: what cannot be judged is Unknown, with the reason. Judging takes some seconds
// at the most, and more than a moment only where a script is involved.
func (j *Judge) Of(obj *unstructured.Unstructured) Status {
	if j == nil || obj.GetDeletionTimestamp() != nil {
		return Of(obj) // what is going is on its way, whatever its status still says
	}
	r, ok := j.rules[obj.GroupVersionKind().GroupKind()]
	switch {
	case !ok:
		return Of(obj)
	case r.lua != "":
		return j.script(r.lua, obj)
	}
	return r.of(obj)
}

// OfHook is Of for an object that is to come to an end. One whose controller always writes a status is waited for until that says
// how it ended: what has not run has not succeeded, however long it has been there.
func (j *Judge) OfHook(obj *unstructured.Unstructured) Status {
	kind := obj.GroupVersionKind().GroupKind()
	if j != nil {
		if _, own := j.rules[kind]; own {
			return j.Of(obj)
		}
	}
	if e := catalogued(kind); e != nil && obj.GetDeletionTimestamp() == nil {
		return e.verdict(obj)
	}
	return j.Of(obj)
}

// Rules reports whether a rule, of people's own or in the catalogue, reads the objects of the kind. They are to be looked at
// whole then, whatever the API server says of the kind.
func (j *Judge) Rules(gk schema.GroupKind) bool {
	if j != nil {
		if _, ok := j.rules[gk]; ok {
			return true
		}
	}
	e := catalogued(gk)
	return e != nil && !e.constant()
}

func (j *Judge) script(text string, obj *unstructured.Unstructured) Status {
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	status, err := j.lua.Health(ctx, text, obj)
	if err != nil {
		return Status{Phase: Unknown, Message: clip("health script: " + err.Error())}
	}
	return Status{Phase: status.Phase, Message: clip(status.Message)}
}

// of judges an object by the expressions.
func (r rule) of(obj *unstructured.Unstructured) Status {
	vars := map[string]any{self: obj.Object}
	budget := boundcel.NewBudget()
	v, absent, err := r.decide(budget, vars)
	switch {
	case err != nil:
		return Status{Phase: Unknown, Message: clip(err.Error())}
	case v.phase == "":
		return Status{Phase: Progressing, Message: clip(cmp.Or(r.say(budget, vars), absent))}
	}
	return Status{Phase: v.phase, Message: r.say(budget, vars)}
}

// decide returns the first verdict whose expression is true, or the zero one. An expression that refers to what is not there is
// not true, since a new object has no status yet: absent says so, in case the field will never be there.
func (r rule) decide(b *boundcel.Budget, vars map[string]any) (v verdict, absent string, err error) {
	for _, v := range r.verdicts {
		is, err := v.when.boolWithin(b, vars)
		var gone *MissingError
		switch {
		case errors.As(err, &gone):
			absent = cmp.Or(absent, fmt.Sprintf("%s: %v", v.field, err))
		case err != nil:
			return verdict{}, "", fmt.Errorf("health rule: %s: %w", v.field, err)
		case is:
			return v, "", nil
		}
	}
	return verdict{}, absent, nil
}

// say is the rule's message. A message that cannot be made takes nothing from the verdict.
func (r rule) say(b *boundcel.Budget, vars map[string]any) string {
	if r.message == nil {
		return ""
	}
	text, err := r.message.textWithin(b, vars)
	var gone *MissingError
	switch {
	case errors.As(err, &gone):
		return ""
	case err != nil:
		return clip(fmt.Sprintf("message: %v", err))
	}
	return clip(text)
}

// clip keeps the beginning of a message, in whole characters of valid UTF-8.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
