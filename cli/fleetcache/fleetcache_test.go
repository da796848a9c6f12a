package fleetcache

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
)

var at = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

func sample() *Seen {
	return &Seen{
		Head: Head{
			At: at, Summary: &v1.Summary{Commit: v1.Commit{ID: "c1"}, Deployments: v1.Counts{v1.Healthy: 1, v1.Degraded: 1}},
			Services: []v1.Service{{Name: "web", Namespace: "front"}},
		},
		Clusters: []Cluster{
			{Cluster: v1.Cluster{Name: "a", Phase: v1.Healthy, Tags: map[string]string{"env": "prod"}, LastReport: &at}},
			{
				Cluster: v1.Cluster{Name: "b", Phase: v1.Degraded},
				Rows: []Row{
					{Service: "db", Phase: v1.Degraded, Message: "no image", Ready: 1, Objects: 2, Held: 3, Suspended: true, Applied: FingerprintOf("k")},
					{Service: "web", Phase: v1.Healthy, Version: "1.2"},
				},
			},
		},
	}
}

func save(t testing.TB, s *Store, seen *Seen) {
	t.Helper()
	if err := s.Save(seen.Head, slices.Values(seen.Clusters)); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasSavedIsLoaded(t *testing.T) {
	dir := t.TempDir()
	s := New(dir, "https://hub.example.com/", "demo", "")
	if seen, err := s.Load(); seen != nil || err != nil {
		t.Fatalf("nothing was seen, and got %v, %v", seen, err)
	}
	save(t, s, sample())
	got, err := New(dir, "https://hub.example.com", "demo", "").Load()
	if diff := cmp.Diff(sample(), got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if other, err := New(dir, "https://hub.example.com", "prod", "").Load(); other != nil || err != nil {
		t.Errorf("another workspace has %v, %v", other, err)
	}
}

func TestVersionsAreKeptBesideWhatWasSeen(t *testing.T) {
	s := New(t.TempDir(), "https://hub.example.com", "demo", "")
	version := func(cluster, version string) v1.Cluster { return v1.Cluster{Name: cluster, KubernetesVersion: version} }
	keep := func(clusters ...v1.Cluster) {
		t.Helper()
		if err := s.SaveVersions(time.Unix(1, 0).UTC(), clusters); err != nil {
			t.Fatal(err)
		}
	}
	keep(version("a", "v1.35.0"))
	save(t, s, sample())
	keep(version("b", "v1.36.0"), version("aa", "v1.34.0"), version("c", ""))
	got, err := s.Load()
	want := sample()
	want.Clusters[1].KubernetesVersion = "v1.36.0"
	want.Clusters = slices.Insert(want.Clusters, 1, Cluster{Cluster: version("aa", "v1.34.0")})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestOnlyItsOwnerCanReadIt(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "config"), "hub", "demo", "")
	save(t, s, sample())
	for path, want := range map[string]os.FileMode{s.Path(): 0o600, filepath.Dir(s.Path()): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

func TestDamagedFileIsToldAndReplaced(t *testing.T) {
	good, err := write(sample().Head, slices.Values(sample().Clusters))
	if err != nil {
		t.Fatal(err)
	}
	line := func(texts ...string) []byte { return pack(t, strings.Join(texts, "\n")+"\n") }
	head := `{"format":1,"at":"2026-03-01T10:00:00Z"}`
	for name, content := range map[string][]byte{
		"empty":              {},
		"no gzip":            []byte("format 1"),
		"cut":                good[:len(good)-9],
		"another form":       line(`{"format":2}`, `{"end":0}`),
		"no end":             line(head, `{"name":"a"}`),
		"too few":            line(head, `{"name":"a"}`, `{"end":2}`),
		"more after its end": line(head, `{"end":0}`, `{"name":"a"}`),
		"no JSON":            line(head, `name`, `{"end":1}`),
		"not in order":       line(head, `{"name":"b"}`, `{"name":"a"}`, `{"end":2}`),
		"services disorder":  line(head, `{"name":"b","rows":[{"s":"b"},{"s":"a"}]}`, `{"end":1}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), "hub", "", "")
			save(t, s, sample())
			if err := os.WriteFile(s.Path(), content, 0o600); err != nil {
				t.Fatal(err)
			}
			var damaged *DamagedError
			if seen, err := s.Load(); seen != nil || !errors.As(err, &damaged) || !strings.Contains(err.Error(), s.Path()) {
				t.Errorf("got %v, %v", seen, err)
			}
			save(t, s, sample())
			if seen, err := s.Load(); seen == nil || err != nil {
				t.Errorf("after it was written anew: %v", err)
			}
		})
	}
}

func pack(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"format":1}` + "\n" + `{"name":"a","rows":[{"s":"b","p":"healthy","k":18446744073709551615}]}` + "\n" + `{"end":1}` + "\n",
		`{"format":1}` + "\n" + `{"end":0}`, "\n", `{"format":1,"services":[{}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		seen, err := read(bytes.NewReader(pack(t, string(text))))
		if (seen == nil) != (err != nil) {
			t.Fatalf("%v, %v", seen, err)
		}
		_, _ = read(bytes.NewReader(text)) // whatever it is, it ends
		if err != nil {
			return
		}
		again, err := write(seen.Head, slices.Values(seen.Clusters))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := read(bytes.NewReader(again)); err != nil || len(back.Clusters) != len(seen.Clusters) {
			t.Fatalf("what was read cannot be written and read: %v", err)
		}
	})
}

func BenchmarkSave(b *testing.B) {
	s, seen := New(b.TempDir(), "hub", "", ""), &Seen{Head: Head{At: at}}
	for i := range 10_000 {
		c := Cluster{Cluster: v1.Cluster{Name: fmt.Sprintf("edge-%05d", i), Phase: v1.Healthy, LastReport: &at}}
		for j := range 10 {
			c.Rows = append(c.Rows, Row{Service: fmt.Sprintf("service-%d", j), Phase: v1.Healthy, Version: "1.2.3", Ready: 12, Objects: 12, Applied: Fingerprint(i + j)})
		}
		seen.Clusters = append(seen.Clusters, c)
	}
	b.Run("save", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			save(b, s, seen)
		}
		info, _ := os.Stat(s.Path())
		b.ReportMetric(float64(info.Size()), "bytes")
	})
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Load(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Two fleets of one name took turns at one port, and what was seen of one stood in the place of what was seen of the other.
func TestARepositoryHasItsOwnWhicheverAddressItsHubHas(t *testing.T) {
	dir := t.TempDir()
	ours := New(dir, "http://127.0.0.1:8080", "demo", "ours")
	if err := ours.Save(Head{Summary: &v1.Summary{Held: 1}}, slices.Values([]Cluster(nil))); err != nil {
		t.Fatal(err)
	}
	if err := New(dir, "http://127.0.0.1:8080", "demo", "theirs").Save(Head{}, slices.Values([]Cluster(nil))); err != nil {
		t.Fatal(err)
	}
	if seen, err := New(dir, "http://127.0.0.1:9000", "demo", "ours").Load(); err != nil || seen == nil || seen.Summary == nil ||
		seen.Summary.Held != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
}
