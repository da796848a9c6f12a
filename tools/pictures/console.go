package main

import (
	"context"
	"fmt"
)

// console draws what the console shows of a fleet in which not all is well.
func (s *studio) console(ctx context.Context) error {
	for _, args := range [][]string{
		{"service", "create", "shop", "--path", "apps/podinfo", "--namespace", "shop", "-l", "env=local", "replicas=2", "tag=6.7.0"},
		{"service", "create", "web", "--path", "apps/podinfo", "--namespace", "web", "--cluster", "edge-2", "replicas=1", "tag=6.7.0"},
		{"service", "suspend", "podinfo"},
		{"service", "set", "podinfo", "replicas=4", "--wait=false"},
	} {
		if err := s.do("plural", append(args, "--yes")...); err != nil {
			return err
		}
	}
	// plural refuses what no API server takes; somebody has pushed it by hand.
	for _, args := range [][]string{
		{"sed", "-i", `s/replicas: "1"/replicas: "-1"/`, "services/web.yaml"}, {"git", "commit", "-qam", "Try less of web"}, {"git", "push", "-q"},
	} {
		if err := s.do(args[0], args[1:]...); err != nil {
			return err
		}
	}
	t := newSession(ctx, 110, 18, s.home, "fleet")
	if err := t.tui(); err != nil {
		return err
	}
	for _, step := range []struct {
		keys  string
		shows []string
		name  string
		title string
	}{
		{"", []string{"✗ failed", "⚑ held"}, "fleet", "Every service on every cluster in one list"},
		{"f", []string{"faults"}, "faults", "What is not healthy, and why"},
		{"f/edge-2 podinfo" + enter, []string{"1 of 7"}, "", ""},
		{"D", []string{"spec.replicas", "+ 4"}, "diff", "What is desired beside what runs"},
		{escape, []string{"by phase"}, "", ""},
		{"t", []string{"Pod/podinfo-"}, "tree", "A service's objects on a cluster"},
		{escape, []string{"by phase"}, "", ""},
		{"l", []string{"simulated container: second"}, "logs", "Logs of all pods of a service on a cluster"},
	} {
		if err := t.keys(step.keys, step.shows...); err != nil {
			return err
		}
		if step.name == "" {
			continue
		}
		if err := s.write(step.name, still(step.title, t.now())); err != nil {
			return fmt.Errorf("picture of %s: %w", step.name, err)
		}
	}
	return t.quit()
}
