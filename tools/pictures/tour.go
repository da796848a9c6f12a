package main

import (
	"context"
	"time"
)

// Keys that are no characters.
const (
	enter  = "\r"
	escape = "\x1b"
)

// tour is the cast: a fleet comes up, a change reaches it, is looked at, and is taken back.
func (s *studio) tour(ctx context.Context) error {
	t := newSession(ctx, 104, 30, s.home, "")
	t.lapse = 4 // how long it took stands in what it prints
	if err := t.shell("plural", "up", "--local", "fleet"); err != nil {
		return err
	}
	t.lapse = 1
	t.hold(1500 * time.Millisecond)
	t.enter("fleet")
	if err := t.shell("plural", "service", "set", "podinfo", "replicas=3"); err != nil {
		return err
	}
	t.hold(2000 * time.Millisecond)
	if err := t.tui(); err != nil {
		return err
	}
	t.hold(1500 * time.Millisecond)
	for _, step := range []struct {
		keys  string
		shows []string
	}{
		{enter, []string{"tree edge-1/podinfo", "Pod/podinfo-"}},
		{escape, []string{"by phase"}},
		{"h", []string{"history", "Set replicas=3 of podinfo"}},
		{enter, []string{`+    replicas: "3"`}},
		{escape, []string{"history", "RESULT"}},
		{escape, []string{"by phase"}},
		{"z", []string{"Undo the fleet's last commit? y/N", `+    replicas: "2"`}},
		{"y", []string{"committed and pushed as", "by phase"}},
		{"@", []string{"plural undo"}},
		{escape, []string{"by phase"}},
	} {
		if err := t.keys(step.keys, step.shows...); err != nil {
			return err
		}
		t.hold(900 * time.Millisecond)
	}
	if err := t.quit(); err != nil {
		return err
	}
	if err := t.shell("git", "log", "--oneline", "-3"); err != nil {
		return err
	}
	t.hold(4 * time.Second)
	return s.write("tour", cast("A fleet comes up, a change reaches it, is seen in the console, and is taken back", t.frames))
}

func (t *session) tui(args ...string) error {
	args = append([]string{"plural", "tui"}, args...)
	t.begin(args...)
	if err := t.start(args...); err != nil {
		return err
	}
	return t.sees("live", "healthy", "? help")
}

func (t *session) quit() error {
	if _, err := t.terminal.WriteString(":q" + enter); err != nil {
		return err
	}
	return t.end()
}
