// Command health is the comparison of our health rules with what other people expect of their fixtures.
//
//	health DIR
//
// DIR holds folders with a health_test.yaml each, as Argo CD's resource_customizations has them: tests, each with an inputPath to
// an object and the healthStatus that is expected of it. For each kind it prints how many fixtures agree, and those that do not.
// Their Suspended is our Healthy, and what they know nothing of (Missing, Unknown) is to be Progressing or Unknown here.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/health"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" {
		fmt.Fprintln(os.Stderr, "usage: health DIR")
		os.Exit(2)
	}
	if err := compare(os.Stdout, os.DirFS(os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// suite is one health_test.yaml.
type suite struct {
	Tests []struct {
		InputPath    string `json:"inputPath"`
		HealthStatus struct {
			Status, Message string
		} `json:"healthStatus"`
	} `json:"tests"`
}

// tally is what became of one suite.
type tally struct {
	kind          string
	agree         int
	disagreements []string
	phases        map[health.Phase]bool
}

func compare(out io.Writer, dir fs.FS) error {
	var all []tally
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != "health_test.yaml" {
			return err
		}
		t, err := judge(dir, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, t)
		return nil
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no health_test.yaml here: name a folder such as Argo CD's resource_customizations")
	}
	var fixtures, agree int
	var stuck []string
	fmt.Fprintf(out, "%-70s %9s %6s\n", "KIND", "FIXTURES", "AGREE")
	for _, t := range all {
		fixtures, agree = fixtures+t.agree+len(t.disagreements), agree+t.agree
		fmt.Fprintf(out, "%-70s %9d %6d\n", t.kind, t.agree+len(t.disagreements), t.agree)
		for _, d := range t.disagreements {
			fmt.Fprintln(out, "    "+d)
		}
		if len(t.phases) == 1 && t.phases[health.Progressing] {
			stuck = append(stuck, t.kind)
		}
	}
	fmt.Fprintf(out, "\n%d of %d fixtures of %d kinds agree: %.1f %% (catalogue version %d)\n", agree, fixtures, len(all),
		100*float64(agree)/float64(fixtures), health.CatalogueVersion)
	fmt.Fprintf(out, "kinds that are nothing but Progressing: %d %v\n", len(stuck), stuck)
	return nil
}

func judge(dir fs.FS, name string) (tally, error) {
	t := tally{kind: path.Base(path.Dir(path.Dir(name))) + "/" + path.Base(path.Dir(name)), phases: map[health.Phase]bool{}}
	data, err := fs.ReadFile(dir, name)
	if err != nil {
		return t, err
	}
	var s suite
	if err := yaml.Unmarshal(data, &s); err != nil {
		return t, err
	}
	for _, test := range s.Tests {
		obj, err := read(dir, path.Join(path.Dir(name), test.InputPath))
		if err != nil {
			return t, err
		}
		ours, theirs := health.Of(obj), test.HealthStatus
		t.phases[ours.Phase] = true
		if slices.Contains(means(theirs.Status), ours.Phase) {
			t.agree++
			continue
		}
		t.disagreements = append(t.disagreements, fmt.Sprintf("%s: ours %s (%.120q), theirs %s (%.120q)",
			path.Base(test.InputPath), ours.Phase, ours.Message, theirs.Status, theirs.Message))
	}
	return t, nil
}

func read(dir fs.FS, name string) (*unstructured.Unstructured, error) {
	data, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	// A fixture is a moment of an object's life, mostly its first: time itself is no part of what is compared.
	obj.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-time.Minute)))
	return obj, nil
}

// means are the phases of ours that agree with a status of theirs.
func means(status string) []health.Phase {
	switch status {
	case "Suspended":
		return []health.Phase{health.Healthy}
	case "Missing", "Unknown":
		return []health.Phase{health.Progressing, health.Unknown}
	}
	return []health.Phase{health.Phase(status)}
}
