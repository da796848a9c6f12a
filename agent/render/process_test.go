package render_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pluralsh/plural/agent/render"
)

// shell is a child that behaves as no child of ours does.
func shell(script string) *render.Renderer {
	return &render.Renderer{Command: []string{"/bin/sh", "-c", script}}
}

func TestChildThatBreaksTheConversationIsAnErrorAndNothingMore(t *testing.T) {
	big := fstest.MapFS{"app/x": {Data: make([]byte, 1<<20)}}
	for name, test := range map[string]struct {
		script string
		want   render.Reason
	}{
		"exits at once":         {"exit 1", render.Crash},
		"says nothing":          {"exit 0", render.Crash},
		"talks nonsense":        {"yes; cat", render.Crash},
		"talks for ever":        {`yes '{"at": "x"}'`, render.Limit},
		"never answers":         {"cat >/dev/null; sleep 60", render.Limit},
		"hides in a grandchild": {"sleep 60 & wait", render.Limit},
		"is killed":             {"kill -9 $$", render.Limit},
		"stops halfway":         {`printf '{"done": tr'`, render.Crash},
		"answers, then lingers": {`echo '{"done": true, "error": {"reason": "Invalid", "message": "no"}}'; exec sleep 60`, render.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			r := shell(test.script)
			r.Limits.Wall = 10 * time.Second
			if test.want == render.Limit { // which has to be met
				r.Limits.Wall = 2 * time.Second
			}
			start := time.Now()
			failed := failure(t, r, input(render.Raw, big))
			if failed.Reason != test.want {
				t.Errorf("%s: %v, want %s", failed.Reason, failed, test.want)
			}
			if took := time.Since(start); took > 40*time.Second {
				t.Errorf("ended after %v", took)
			}
		})
	}
}

func TestChildHasNoEnvironmentAndStartsAtTheRoot(t *testing.T) {
	t.Setenv("RENDER_SECRET", "hunter2")
	failed := failure(t, shell(`printf '{"done":true,"error":{"reason":"Invalid","message":"%s in %s"}}\n' "$RENDER_SECRET" "$(/bin/pwd)"`), input(render.Raw, fstest.MapFS{}))
	if failed.Message != "in /" {
		t.Errorf("child saw %q", failed.Message)
	}
}

func TestMissingChildProgramIsNoFaultOfTheInput(t *testing.T) {
	_, err := (&render.Renderer{Command: []string{"/no/such/program"}}).Render(t.Context(), input(render.Raw, fstest.MapFS{}))
	if err == nil || !strings.Contains(err.Error(), "start child") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
