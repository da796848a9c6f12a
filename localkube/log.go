package main

import (
	"fmt"
	"io"
	"log/slog"

	"k8s.io/klog/v2"
)

// newLog returns a logger of the given level that Kubernetes logs through as well.
func newLog(w io.Writer, name string) (*slog.Logger, error) {
	var level slog.Level
	switch name {
	case "error":
		level = slog.LevelError
	case "info":
		level = slog.LevelInfo
	case "debug":
		level = slog.LevelDebug
	default:
		return nil, fmt.Errorf("invalid --log-level %q: give error, info or debug", name)
	}
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log)
	return log, nil
}
