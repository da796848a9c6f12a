package lua_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/health/lua"
)

// slow is more time than any honest script takes here.
const slow = 20 * time.Second

// conditions is written as health scripts usually are.
const conditions = `
local hs = { status = "Progressing", message = "Waiting for the certificate" }
if obj.status ~= nil and obj.status.conditions ~= nil then
  for i, condition in ipairs(obj.status.conditions) do
    if condition.type == "Ready" and condition.status == "False" then
      hs.status = "Degraded"
      hs.message = condition.message
      return hs
    end
    if condition.type == "Ready" and condition.status == "True" then
      hs.status = "Healthy"
      hs.message = condition.message
    end
  end
end
return hs
`

// rollout counts, formats and compares generations, which are numbers in some kinds and texts in others.
const rollout = `
function observed(obj)
  return tostring(obj.status.observedGeneration) == tostring(obj.metadata.generation)
end
if obj.spec.paused then
  return { status = "Suspended", message = "paused at step " .. (obj.status.step or 0) }
end
if not observed(obj) then
  return { status = "Progressing", message = "not observed" }
end
local ready, wanted = 0, obj.spec.replicas
for _, set in pairs(obj.status.sets or {}) do ready = ready + set.ready end
if ready < wanted then
  return { status = "Progressing", message = string.format("%d of %d", ready, wanted) }
end
return { status = "Healthy", message = table.concat(obj.status.names, ", ") }
`

func TestScriptsWrittenForArgoJudgeObjects(t *testing.T) {
	s := scripts(t)
	tests := []struct {
		name, script, object string
		want                 health.Status
	}{
		{"no status", conditions, `{kind: A}`, health.Status{Phase: health.Progressing, Message: "Waiting for the certificate"}},
		{
			"true", conditions, `{status: {conditions: [{type: Issuing, status: "True"}, {type: Ready, status: "True", message: up to date}]}}`,
			health.Status{Phase: health.Healthy, Message: "up to date"},
		},
		{
			"false", conditions, `{status: {conditions: [{type: Ready, status: "False", message: "no issuer"}]}}`,
			health.Status{Phase: health.Degraded, Message: "no issuer"},
		},
		{
			"whole numbers read as people write them", rollout,
			`{metadata: {generation: 3}, spec: {replicas: 5}, status: {observedGeneration: "3", sets: {a: {ready: 1}, b: {ready: 2}}}}`,
			health.Status{Phase: health.Progressing, Message: "3 of 5"},
		},
		{
			"lists are lists", rollout, `{metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1, names: [a, b]}}`,
			health.Status{Phase: health.Healthy, Message: "a, b"},
		},
		{
			"what a person stopped holds nobody up", rollout, `{spec: {paused: true}, status: {step: 2}}`,
			health.Status{Phase: health.Healthy, Message: "suspended: paused at step 2"},
		},
		{"suspended without words", `return {status = "Suspended"}`, `{}`, health.Status{Phase: health.Healthy, Message: "suspended"}},
		{"missing", `return {status = "Missing", message = "no backend"}`, `{}`, health.Status{Phase: health.Progressing, Message: "no backend"}},
		{"unknown", `return {status = "Unknown"}`, `{}`, health.Status{Phase: health.Unknown}},
		{"null is not there", `return {status = obj.status == nil and "Healthy" or "Degraded"}`, `{status: null}`, health.Status{Phase: health.Healthy}},
		{"a message that is no text is none", `return {status = "Healthy", message = {}}`, `{}`, health.Status{Phase: health.Healthy}},
		{"print says nothing", `print(obj) return {status = "Healthy"}`, `{}`, health.Status{Phase: health.Healthy}},
		{"an error that is caught", `local ok = pcall(error, "x") return {status = ok and "Degraded" or "Healthy"}`, `{}`, health.Status{Phase: health.Healthy}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Health(t.Context(), tt.script, object(t, tt.object))
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("error %v, status (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAScriptThatIsWrongSaysWhere(t *testing.T) {
	s := scripts(t)
	for name, test := range map[string]struct{ script, want string }{
		"does not parse":      {"local x =\nreturn )", "line:2"},
		"fails":               {"return {status = obj.status.phase}", "attempt to index"},
		"raises":              {`error("no backend")`, "no backend"},
		"raises a table":      {`error({})`, "run script"},
		"returns nothing":     {"", "returns nil; want a table"},
		"returns a text":      {`return "Healthy"`, "returns string; want a table"},
		"knows another word":  {`return {status = "Fine"}`, `status "Fine"; want one of Degraded, Healthy`},
		"gives no status":     {`return {message = "x"}`, `status ""; want one of`},
		"recurses":            {"function f() return 1 + f() end return f()", "stack overflow"},
		"has no io":           {`return io.open("/etc/passwd")`, "attempt to index"},
		"has no os":           {`return os.getenv("HOME")`, "attempt to index"},
		"has no require":      {`return require("os")`, "attempt to call"},
		"loads no code":       {`return load("return 1")`, "attempt to call"},
		"loads no text":       {`return loadstring("return 1")`, "attempt to call"},
		"runs no file":        {`return dofile("/etc/passwd")`, "attempt to call"},
		"has no debug":        {`return debug.traceback()`, "attempt to index"},
		"has no package":      {`return package.loaded`, "attempt to index"},
		"changes no function": {`setfenv(1, {})`, "attempt to call"},
		"finds nothing in _G": {`return _G["dofile"]("/etc/passwd")`, "attempt to call"},
		"is too long":         {strings.Repeat("-", health.MaxText+1), "more than the 8192"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Health(t.Context(), test.script, object(t, `{kind: A}`))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("status %v, error %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestAScriptThatBreaksItsBoundsFailsAlone(t *testing.T) {
	for name, test := range map[string]struct {
		script, want string
		wall         time.Duration
	}{
		"runs for ever":             {"while true do end", "longer than", 200 * time.Millisecond},
		"runs for ever in a pcall":  {"while true do pcall(function() while true do end end) end", "longer than", 200 * time.Millisecond},
		"searches for ever":         {`return string.find(string.rep("a", 40), string.rep("a-", 40) .. "b")`, "longer than", 200 * time.Millisecond},
		"collects tables":           {`local t = {} while true do t = {t, {}, {}, {}} end`, "memory", slow},
		"doubles a text":            {`local s = "x" while true do s = s .. s end`, "memory", slow},
		"repeats a text":            {`return string.rep("x", 1e10)`, "", slow},
		"hides a text in a message": {`return {status = "Healthy", message = string.rep("x", 1e9)}`, "memory", slow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripts(t)
			s.Wall = test.wall
			_, err := s.Health(t.Context(), test.script, object(t, `{kind: A}`))
			var broke *lua.BoundError
			if !errors.As(err, &broke) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v; want a BoundError with %q", err, test.want)
			}
			s.Wall = slow
			if got, err := s.Health(t.Context(), `return {status = "Healthy"}`, object(t, `{}`)); err != nil || got.Phase != health.Healthy {
				t.Errorf("the next script gives %v, %v", got, err)
			}
		})
	}
}

func TestAScriptThatKeepsBreakingItsBoundsRestsWhileOthersRun(t *testing.T) {
	s := scripts(t)
	s.Wall = 100 * time.Millisecond
	const endless = "while true do end"
	for range 3 {
		if _, err := s.Health(t.Context(), endless, object(t, `{}`)); err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Fatalf("error %v", err)
		}
	}
	s.Wall = slow
	if _, err := s.Health(t.Context(), endless, object(t, `{}`)); err == nil || !strings.Contains(err.Error(), "tried again in a minute") {
		t.Errorf("error %v", err)
	}
	if got, err := s.Health(t.Context(), `return {status = "Healthy"}`, object(t, `{}`)); err != nil || got.Phase != health.Healthy {
		t.Errorf("another script gives %v, %v", got, err)
	}
}

func TestNothingThatAScriptLeavesBehindIsSeenByTheNext(t *testing.T) {
	s := scripts(t)
	const script = `
local was = seen or string.seen or getmetatable("").seen or obj.seen
seen = true; string.seen = true; getmetatable("").seen = true; obj.seen = true
return {status = was and "Degraded" or "Healthy"}`
	obj := object(t, `{kind: A}`)
	for range 3 {
		if got, err := s.Health(t.Context(), script, obj); err != nil || got.Phase != health.Healthy {
			t.Errorf("status %v, error %v", got, err)
		}
	}
}

func TestOneChildServesAllAndLongMessagesAreCut(t *testing.T) {
	s := scripts(t)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			got, err := s.Health(t.Context(), `return {status = "Healthy", message = obj.number .. string.rep("\1", 5000)}`, object(t, fmt.Sprintf(`{number: %d}`, i)))
			if prefix := fmt.Sprintf("%d\x01", i); err != nil || !strings.HasPrefix(got.Message, prefix) || len(got.Message) > 1024 {
				t.Errorf("%d: %d bytes of message, error %v", i, len(got.Message), err)
			}
		})
	}
	group.Wait()
}

func TestWhoManagesAFieldIsNotShown(t *testing.T) {
	obj := object(t, `{metadata: {name: a, managedFields: [{manager: x}]}}`)
	got, err := scripts(t).Health(t.Context(), `return {status = obj.metadata.managedFields and "Degraded" or "Healthy", message = obj.metadata.name}`, obj)
	if err != nil || got != (health.Status{Phase: health.Healthy, Message: "a"}) {
		t.Errorf("status %v, error %v", got, err)
	}
	if len(obj.GetManagedFields()) != 1 {
		t.Error("the caller's object changed")
	}
}

func TestAChildThatIsNoChildOfOursIsAnErrorAndNothingMore(t *testing.T) {
	for name, script := range map[string]string{
		"exits at once":    "exit 1",
		"talks nonsense":   "echo; read x; echo nonsense",
		"talks for ever":   "yes",
		"says too much":    `echo; read x; head -c 100000 /dev/zero; echo`,
		"says more fields": `echo {}; read x; echo '{"status": "Healthy", "phase": "Healthy"}'; cat`,
		"is killed":        "kill -9 $$",
		"dies later":       "echo {}; read x; kill -9 $$",
	} {
		t.Run(name, func(t *testing.T) {
			s := &lua.Scripts{Command: []string{"/bin/sh", "-c", script}, Wall: slow}
			t.Cleanup(s.Close)
			if got, err := s.Health(t.Context(), "return 1", object(t, `{}`)); err == nil {
				t.Errorf("status %v", got)
			}
		})
	}
	if _, err := (&lua.Scripts{}).Health(t.Context(), "", object(t, `{}`)); err == nil {
		t.Error("no command is no error")
	}
}

func TestACallerThatGivesUpIsNotKeptWaiting(t *testing.T) {
	s := scripts(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Health(ctx, "while true do end", object(t, `{}`))
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got, err := s.Health(t.Context(), `return {status = "Healthy"}`, object(t, `{}`)); err != nil || got.Phase != health.Healthy {
		t.Errorf("the next script gives %v, %v", got, err)
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}
