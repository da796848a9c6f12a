package lua

import (
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/health"
)

func FuzzAReplyIsAVerdictOrAnError(f *testing.F) {
	f.Add([]byte(`{"status":"Healthy","message":"fine"}`))
	f.Add([]byte(`{"error":"run script: no"}`))
	f.Add([]byte(`{"status":"Fine"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		status, err := decode(line)
		switch status.Phase {
		case health.Healthy, health.Progressing, health.Degraded, health.Unknown:
			if err != nil {
				t.Errorf("both %v and %v", status, err)
			}
		case "":
			if err == nil {
				t.Error("neither a phase nor an error")
			}
		default:
			t.Errorf("phase %q", status.Phase)
		}
	})
}

func FuzzAScriptEndsInAReplyThatFits(f *testing.F) {
	f.Add(`return {status = "Healthy", message = obj.kind}`)
	f.Add(`error("\255\0")`)
	f.Add(`return {status = string.format("%5s", "x")}`)
	f.Fuzz(func(t *testing.T, script string) {
		// Loops, calls and texts that grow are what the process's walls are for; here the interpreter alone is tried.
		if len(script) > 200 || strings.ContainsAny(script, "(") || strings.Contains(script, "while") ||
			strings.Contains(script, "repeat") || strings.Contains(script, "for") || strings.Contains(script, "goto") || strings.Contains(script, "..") {
			return
		}
		a := &answerer{compiled: map[string]*lua.FunctionProto{}, most: 1 << 40}
		line, err := request(script, &unstructured.Unstructured{Object: map[string]any{"kind": "A"}})
		if err != nil {
			return // no input that the property speaks of
		}
		said := a.answer(line)
		if len(said.Status)+len(said.Message)+len(said.Error) > 3*maxSaid {
			t.Errorf("%d bytes", len(said.Status)+len(said.Message)+len(said.Error))
		}
	})
}
