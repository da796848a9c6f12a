package agent

import (
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestFlagsThatCannotBeMeantAreRefusedBeforeAnythingStarts(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for flags, want := range map[string]string{
		"":                                     "give --data FOLDER",
		"--data d --concurrency 1":             "it takes 2 at least",
		"--data d --plugin-digest a=" + digest: "give --plugins FOLDER",
		"--data d --plugins p --plugin-digest a=" + digest[:20]: "want NAME=sha256: and 64 hexadecimal digits",
	} {
		cmd := NewCmdRun(func() *slog.Logger { return slog.New(slog.DiscardHandler) })
		cmd.SetArgs(strings.Fields(flags))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", flags, err)
		}
	}
}
