package sync

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
)

// answer is what a scripted hub says to one poll; nil means 304.
type answer struct {
	poll          *api.Poll
	etag, edition string
}

// scripted is a hub that says one answer after the other, the last one for ever, and notes with which ETag it was asked.
type scripted struct {
	Hub
	began   time.Time
	answers []answer
	asked   []string
	times   []time.Duration
}

func (h *scripted) Poll(_ context.Context, etag string) (*api.Poll, string, string, error) {
	a := h.answers[min(len(h.asked), len(h.answers)-1)]
	h.asked, h.times = append(h.asked, etag), append(h.times, time.Since(h.began))
	if a.poll == nil {
		return nil, etag, a.edition, nil
	}
	return a.poll, a.etag, a.edition, nil
}

// polling runs a poller alone on a clock of its own, from what a store holds, and gives what it hands on.
func polling(t *testing.T, keep Store, h *scripted, lasts time.Duration) []string {
	t.Helper()
	var taken []string
	synctest.Test(t, func(t *testing.T) {
		h.began = time.Now()
		s := New(Options{Hub: h, Store: keep, Log: slog.New(slog.DiscardHandler), PollInterval: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- s.poll(ctx, s.recall()) }()
		for ctx.Err() == nil {
			select {
			case n := <-s.polls:
				taken = append(taken, n.etag)
			case <-ctx.Done():
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return taken
}

func disk(t *testing.T, dir string) *store.Store {
	t.Helper()
	keep, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keep.Close() })
	return keep
}

func TestEverythingIsAskedForAgainAboutEveryTwoHours(t *testing.T) {
	h := &scripted{answers: []answer{{&api.Poll{}, "r", ""}}}
	taken := polling(t, disk(t, t.TempDir()), h, 9*time.Hour)
	var whole []time.Duration
	for i, etag := range h.asked {
		if etag == "" {
			whole = append(whole, h.times[i])
		}
	}
	if len(whole) != 5 || whole[0] != 0 {
		t.Fatalf("asked for everything at %v", whole)
	}
	for i := 1; i < len(whole); i++ {
		if pause := whole[i] - whole[i-1]; pause < 108*time.Minute || pause > 134*time.Minute {
			t.Errorf("a pause of %v", pause)
		}
	}
	if len(taken) != len(h.asked) {
		t.Errorf("%d answers, %d of them taken", len(h.asked), len(taken))
	}
}

func TestAnswersOfOlderEditionsAreNotTaken(t *testing.T) {
	some := &api.Poll{}
	for name, test := range map[string]struct {
		answers []answer
		taken   []string
	}{
		"a replica lags":        {[]answer{{some, "r7", "s-7"}, {some, "r6", "s-6"}, {some, "r8", "s-8"}, {nil, "", "s-8"}}, []string{"r7", "r8"}},
		"nothing new counts":    {[]answer{{some, "r7", "s-7"}, {nil, "", "s-9"}, {some, "r8", "s-8"}, {nil, "", "s-9"}}, []string{"r7"}},
		"the same again":        {[]answer{{some, "r7", "s-7"}, {some, "r7b", "s-7"}, {nil, "", "s-7"}}, []string{"r7", "r7b"}},
		"another stream":        {[]answer{{some, "r7", "s-7"}, {some, "r1", "t-1"}, {nil, "", "t-1"}}, []string{"r7", "r1"}},
		"no edition":            {[]answer{{some, "r7", "s-7"}, {some, "r", ""}, {some, "r2", "nonsense"}, {nil, "", ""}}, []string{"r7", "r", "r2"}},
		"numbers are no words":  {[]answer{{some, "r9", "s-x-9"}, {some, "r10", "s-x-10"}, {nil, "", "s-x-10"}}, []string{"r9", "r10"}},
		"a number out of range": {[]answer{{some, "r9", "s-9"}, {some, "r10", "s-99999999999999999999"}, {nil, "", ""}}, []string{"r9", "r10"}},
	} {
		t.Run(name, func(t *testing.T) {
			taken := polling(t, disk(t, t.TempDir()), &scripted{answers: test.answers}, 10*time.Minute)
			if diff := cmp.Diff(test.taken, taken); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheEditionIsRememberedOverARestart(t *testing.T) {
	dir := t.TempDir()
	polling(t, disk(t, dir), &scripted{answers: []answer{{&api.Poll{}, "r7", "s-7"}, {nil, "", "s-7"}}}, 10*time.Minute)
	h := &scripted{answers: []answer{{&api.Poll{}, "r6", "s-6"}, {nil, "", "s-7"}}}
	if taken := polling(t, disk(t, dir), h, 10*time.Minute); len(taken) > 0 || h.asked[0] != "r7" {
		t.Errorf("%v was taken after asking with %v", taken, h.asked)
	}
}

// An agent that is about to replace this one writes to the same disk, and may have heard more.
func TestAnOlderEditionDoesNotReplaceANewerOneOnTheDisk(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel() // nobody is there to take the news
	keep := disk(t, t.TempDir())
	s := New(Options{Store: keep, Log: slog.New(slog.DiscardHandler)})
	for _, n := range []struct{ etag, edition, want string }{
		{"r8", "s-8", "r8"}, {"r7", "s-7", "r8"}, {"r9", "s-9", "r9"}, {"r1", "t-1", "r1"},
	} {
		s.take(gone, news{&api.Poll{}, n.etag, parseEdition(n.edition)})
		if _, etag, _, err := keep.Poll(); err != nil || etag != n.want {
			t.Errorf("after %s the disk has %s: %v", n.edition, etag, err)
		}
	}
}

// bundles is a hub that gives archives by key.
type bundles struct {
	Hub
	packed map[string][]byte
	asked  []string
}

func (h *bundles) Bundle(_ context.Context, key string) ([]byte, error) {
	h.asked = append(h.asked, key)
	if packed := h.packed[key]; packed != nil {
		return packed, nil
	}
	return nil, errors.New("no such bundle")
}

// add packs one file, and gives the archive that a deployment would name.
func (h *bundles) add(t *testing.T, content string) archive {
	t.Helper()
	var packed bytes.Buffer
	inputs := []string{"app"}
	if err := bundle.Pack(&packed, fstest.MapFS{"app/x.yaml": {Data: []byte(content)}}, inputs, bundle.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	files, err := bundle.Unpack(bytes.NewReader(packed.Bytes()), bundle.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	key, err := files.Key(inputs)
	if err != nil {
		t.Fatal(err)
	}
	h.packed[key] = packed.Bytes()
	return archive{key, inputs}
}

func TestADamagedBundleIsFetchedAgain(t *testing.T) {
	h := &bundles{packed: map[string][]byte{}}
	whole, damaged, gone, lost := h.add(t, "a: 1"), h.add(t, "b: 1"), h.add(t, "c: 1"), h.add(t, "d: 1")
	dir := t.TempDir()
	keep := disk(t, dir)
	for _, a := range []archive{whole, damaged, lost} {
		if err := keep.SaveBundle(a.key, h.packed[a.key]); err != nil {
			t.Fatal(err)
		}
	}
	delete(h.packed, lost.key) // the hub serves another revision by now
	for _, a := range []archive{damaged, lost} {
		file := filepath.Join(dir, "bundles", a.key)
		rotten, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rotten[len(rotten)/2] ^= 1
		if err := os.WriteFile(file, rotten, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := &loopState{services: map[string]*service{
		"web": {desired: deployment(whole, damaged), good: deployment(lost)},
		"db":  {desired: deployment(gone), good: deployment(gone)},
		"old": {},
	}}
	s := New(Options{Hub: h, Store: keep, Log: slog.New(slog.DiscardHandler), Verify: time.Minute})
	state.verify = time.Now()
	s.verify(t.Context(), state)
	<-s.verified
	slices.Sort(h.asked)
	want := []string{damaged.key, gone.key, lost.key}
	slices.Sort(want)
	if diff := cmp.Diff(want, h.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	for _, a := range []archive{whole, damaged, gone} {
		packed, err := keep.Bundle(a.key)
		if err == nil {
			_, err = a.verified(packed)
		}
		if err != nil {
			t.Errorf("%s: %v", a.key, err)
		}
	}
}

// deployment has one bundle of its own, and the others mounted.
func deployment(own archive, mounted ...archive) *api.Deployment {
	d := &api.Deployment{Bundle: own.key, Inputs: own.inputs}
	for _, a := range mounted {
		d.Mounts = append(d.Mounts, &api.Mount{At: "m", Bundle: a.key, Inputs: a.inputs})
	}
	return d
}
