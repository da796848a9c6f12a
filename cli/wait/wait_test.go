package wait_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/wait"
)

const newest = "3f2c91a000"

// hub has one service on one cluster, as it is told.
func hub(rows ...v1.Deployment) http.Handler {
	for i := range rows {
		rows[i].Service, rows[i].Cluster, rows[i].Key = "web", "edge-1", "k"
	}
	answers := map[string]any{
		"/v1/status":        v1.Status{Commit: v1.Commit{ID: newest}, Head: v1.Commit{ID: newest}},
		"/v1/services/web":  v1.Service{Name: "web", Deployments: rows},
		"/v1/deployments":   v1.List[v1.Deployment]{Items: rows, Total: len(rows)},
		"/v1/clusters/edge": v1.ClusterDetail{Cluster: v1.Cluster{Name: "edge", Phase: v1.Stale}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = v1.Error{Message: "no such thing"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// run runs `plural wait LINE` on a clock that moves five seconds a look.
func run(t *testing.T, h http.Handler, line string, timeout ...time.Duration) (out, errOut string, err error) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	env := map[string]string{"PLURAL_HUB": server.URL, "PLURAL_CONFIG_DIR": t.TempDir()}
	var stdout, stderr bytes.Buffer
	clock := time.Now()
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}, Version: "test",
		Now:    func() time.Time { clock = clock.Add(3 * time.Second); return clock },
		Getenv: func(name string) string { return env[name] },
	}
	cmd := wait.NewCmdWait(f)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(strings.Fields(line))
	ctx := t.Context()
	for _, d := range timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		f.Timeout = d
		defer cancel()
	}
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

func TestAWaitEndsWhenItIsSo(t *testing.T) {
	t.Parallel()
	for line, row := range map[string]v1.Deployment{
		"service/web --for healthy":              {Phase: v1.Healthy, AppliedKey: "k"},
		"web --for synced":                       {Phase: v1.Degraded, AppliedKey: "k"},
		"svc/web --for synced":                   {Phase: v1.Degraded, AppliedKey: "k"},
		"service/web --for commit=3f2c91a":       {Phase: v1.Progressing, AppliedKey: "k"},
		"-l env=prod":                            {Phase: v1.Healthy, AppliedKey: "k"},
		"-A":                                     {Phase: v1.Held, Suspended: true},
		"service/other cluster/x --for deleted ": {},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			h := hub(row)
			if strings.Contains(line, "deleted") {
				h = hub()
			}
			if out, errOut, err := run(t, h, line); err != nil || !strings.HasPrefix(out, "TARGET\tFOR\n") || (errOut == "") == row.Suspended {
				t.Errorf("%q, %q, %v", out, errOut, err)
			}
		})
	}
}

func TestAWaitInVainSaysWhyAndEndsWithTheCodeForIt(t *testing.T) {
	t.Parallel()
	for line, tt := range map[string]struct {
		row  v1.Deployment
		code ui.Code
		says string
	}{
		"service/web --for healthy": {
			v1.Deployment{Phase: v1.Failed, Message: "no such image"},
			ui.ExitFailed,
			"web on edge-1 failed: no such image",
		},
		"service/web --for synced": {
			v1.Deployment{Phase: v1.Failed, Message: "no such kind"},
			ui.ExitFailed,
			"web on edge-1 failed: no such kind",
		},
		"service/web":                   {v1.Deployment{Phase: v1.Held, Held: &v1.Waiting{Count: 3}}, ui.ExitPending, "plural service ack web"},
		"svc/web":                       {v1.Deployment{Phase: v1.Held, Held: &v1.Waiting{Count: 3, Unchecked: true}}, ui.ExitPending, "plural service ack web --cluster edge-1"},
		"web -l a=b":                    {v1.Deployment{Phase: v1.Held, Leftover: true}, ui.ExitPending, "plural service ack --cluster-removals edge-1"},
		"web":                           {v1.Deployment{Phase: v1.Held, Message: "source up was not fetched yet"}, ui.ExitFailed, "plural why web"},
		"web --for deleted":             {v1.Deployment{Phase: v1.Held, Leftover: true}, ui.ExitPending, "plural service ack --cluster-removals edge-1"},
		"service/web --for best":        {v1.Deployment{}, ui.ExitFailed, "--for healthy, synced, deleted or commit=SHA"},
		"job/web":                       {v1.Deployment{}, ui.ExitFailed, "service/NAME"},
		"":                              {v1.Deployment{}, ui.ExitFailed, "-A"},
		"service/web -A":                {v1.Deployment{}, ui.ExitFailed, "leave out -A"},
		"service/web --for commit=main": {v1.Deployment{}, ui.ExitFailed, "installation repo"},
		"service/web --for commit=abc":  {v1.Deployment{}, ui.ExitFailed, "commit=SHA"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			out, _, err := run(t, hub(tt.row), line)
			var told *ui.Err
			if !errors.As(err, &told) || ui.CodeOf(err) != tt.code || out != "" {
				t.Fatalf("%q, %v", out, err)
			}
			text := told.Msg + told.Fix
			for _, p := range told.Problems {
				text += p.Where + " " + p.Message
			}
			if !strings.Contains(text, tt.says) {
				t.Errorf("no %q in %q", tt.says, text)
			}
		})
	}
}

func TestAReasonOfManyClustersIsToldOnce(t *testing.T) {
	t.Parallel()
	var rows []v1.Deployment
	for i := range 8 {
		rows = append(rows, v1.Deployment{Service: "web", Cluster: fmt.Sprint("edge-", i), Phase: v1.Progressing, Message: "no such image"})
	}
	rows = append(rows, v1.Deployment{Service: "db", Cluster: "edge-1", Phase: v1.Pending})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = v1.Status{Commit: v1.Commit{ID: newest}, Head: v1.Commit{ID: newest}}
		if r.URL.Path == "/v1/deployments" {
			answer = v1.List[v1.Deployment]{Items: rows, Total: len(rows)}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	_, errOut, err := run(t, h, "-A", 2*time.Second)
	const want = "web on edge-0, web on edge-1, web on edge-2, web on edge-3, web on edge-4 and 3 more are progressing: no such image"
	if !strings.Contains(errOut, "waiting for 9: "+want+"; db on edge-1 is pending\n") {
		t.Errorf("said %q", errOut)
	}
	var told *ui.Err
	if !errors.As(err, &told) || len(told.Problems) != 2 || told.Problems[0].Message != want ||
		!strings.HasPrefix(told.Fix, "plural why web") {
		t.Errorf("%+v", err)
	}
}
