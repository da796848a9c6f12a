package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/klog/v2"
)

// levels say what is logged by Kubernetes and our own parts, and by the store.
type levels struct {
	ours  slog.Level
	store string
}

// parseLevel reads the value of --log-level. The store logs its own orderly stop as
// errors, so that it is silent below info; what ends it is reported anyway.
func parseLevel(name string) (levels, error) {
	switch name {
	case "error":
		return levels{slog.LevelError, "panic"}, nil
	case "info":
		return levels{slog.LevelInfo, "info"}, nil
	case "debug":
		return levels{slog.LevelDebug, "debug"}, nil
	}
	return levels{}, fmt.Errorf("invalid --log-level %q: give error, info or debug", name)
}

// newLog returns a logger that Kubernetes logs through as well. When only errors are
// wanted it falls silent with ctx: controllers that are told to stop call that an error,
// a hundred times over.
func newLog(ctx context.Context, w io.Writer, level slog.Level) *slog.Logger {
	threshold := new(slog.LevelVar)
	threshold.Set(level)
	if level == slog.LevelError {
		context.AfterFunc(ctx, func() { threshold.Set(slog.LevelError + 1) })
	}
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: threshold}))
	klog.SetSlogLogger(log)
	return log
}
