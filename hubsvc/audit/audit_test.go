package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/internal/principal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(dir string, change ...func(*audit.Options)) audit.Options {
	o := audit.Options{Dir: dir, Now: time.Now, Log: slog.New(slog.DiscardHandler), Wait: 20 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	return o
}

// open gives a log that does not run.
func open(t *testing.T, o audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run has the log written; stop returns when all of it is.
func run(t *testing.T, l *audit.Log) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return stop
}

func record(id string) audit.Record {
	return audit.Record{AuditRecord: v1.AuditRecord{
		Time: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), ID: id, Stage: audit.End, Person: "ana", Verb: "get", Resource: "pods",
		Cluster: "edge", Decision: "allowed", Status: 200, Duration: 1500,
	}}
}

func must(r audit.Record, stage string) audit.Record {
	r.Must, r.Stage = true, stage
	return r
}

func write(t *testing.T, l *audit.Log, records ...audit.Record) {
	t.Helper()
	for _, r := range records {
		if err := l.Write(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// files are the log's, the oldest first.
func files(t *testing.T, dir string) []string {
	t.Helper()
	full, _ := filepath.Glob(filepath.Join(dir, "audit-*.jsonl"))
	slices.Sort(full)
	return append(full, filepath.Join(dir, "audit.jsonl"))
}

// text is all that is in them.
func text(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	for _, name := range files(t, dir) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, content...)
	}
	return all
}

// verify says whether the lines follow each other as they were written.
func verify(r io.Reader) error {
	var chain audit.Chain
	return audit.Lines(r, func(_ int, line []byte) error { return chain.Add(line) })
}

func ids(t *testing.T, dir string) (ids []string) {
	t.Helper()
	for line := range bytes.Lines(text(t, dir)) {
		var r audit.Record
		if json.Unmarshal(line, &r) == nil {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func TestRecordsAreLinesInOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	l := open(t, options(dir))
	stop := run(t, l)
	write(t, l, record("a"), must(record("b"), audit.Start), record("c"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, ids(t, dir)); diff != "" {
		t.Error(diff)
	}
	first, _, _ := strings.Cut(string(text(t, dir)), "\n")
	want := `{"time":"2026-11-22T10:00:00Z","id":"a","stage":"end","person":"ana","cluster":"edge","verb":"get","resource":"pods",` +
		`"decision":"allowed","status":200,"duration_ns":1500,"prev":""}`
	if first != want {
		t.Errorf("line is %s", first)
	}
	info, err := os.Stat(filepath.Join(dir, "audit.jsonl"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file is %v, %v", info.Mode(), err)
	}
}

// U14: a name cannot begin a line of its own, nor colour the terminal of whoever reads it.
func TestNothingInARecordLooksLikeAnother(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	stop := run(t, l)
	r := record("a")
	r.Person = "eve\n{\"id\":\"forged\",\"person\":\"root\"}\r\x1b[31m\u009b31m\u202e\u2028é😀\x7f"
	r.UserAgent = "bad \xff\xfe bytes"
	write(t, l, r)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	content := text(t, dir)
	if bytes.Count(content, []byte("\n")) != 1 || bytes.ContainsFunc(content[:len(content)-1], func(c rune) bool { return c < ' ' || c > '~' }) {
		t.Errorf("line is %q", content)
	}
	var got audit.Record
	if err := json.Unmarshal(content, &got); err != nil || got.Person != r.Person {
		t.Errorf("person is %q, %v", got.Person, err)
	}
}

func TestLogGoesOnWhereItEnded(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		l := open(t, options(dir))
		if i > 0 && len(l.Recent(10, nil)) != 2*i {
			t.Errorf("%d records are known after %d starts", len(l.Recent(10, nil)), i)
		}
		stop := run(t, l)
		write(t, l, record(fmt.Sprint("a", i)), record(fmt.Sprint("b", i)))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a0", "b0", "a1", "b1", "a2", "b2"}, ids(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := verify(bytes.NewReader(text(t, dir))); err != nil {
		t.Error(err)
	}
}

func TestFullFilesMakeRoomForTheNext(t *testing.T) {
	dir := t.TempDir()
	o := options(dir, func(o *audit.Options) { o.MaxBytes, o.Keep = 500, 3 })
	o.Now = func() time.Time { return time.Unix(0, 0) } // a clock that stands still makes no name twice
	l := open(t, o)
	stop := run(t, l)
	for i := range 40 {
		write(t, l, record(fmt.Sprint(i)))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	names := files(t, dir)
	if len(names) != 3 {
		t.Fatalf("files are %v", names)
	}
	got := ids(t, dir)
	if got[len(got)-1] != "39" || got[0] == "0" {
		t.Errorf("records are %v", got)
	}
	if err := verify(bytes.NewReader(text(t, dir))); err != nil {
		t.Error(err)
	}
}

func TestChangedAndMissingLinesShow(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	stop := run(t, l)
	for i := range 5 {
		write(t, l, record(fmt.Sprint("id-", i)))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	content := string(text(t, dir))
	lines := strings.SplitAfter(content, "\n")
	for name, changed := range map[string]string{
		"changed":     strings.Replace(content, `"id":"id-2"`, `"id":"id-9"`, 1),
		"taken out":   lines[0] + lines[1] + lines[3] + lines[4],
		"exchanged":   lines[0] + lines[2] + lines[1] + lines[3] + lines[4],
		"put in":      lines[0] + lines[1] + lines[1] + lines[2] + lines[3] + lines[4],
		"made a gap":  lines[0] + lines[1] + "\n" + lines[2],
		"made broken": lines[0] + lines[1][:20] + "\n" + lines[2],
	} {
		if verify(strings.NewReader(changed)) == nil {
			t.Errorf("a line that was %s does not show", name)
		}
	}
	if err := verify(strings.NewReader(strings.Join(lines[2:], ""))); err != nil {
		t.Errorf("a log without its beginning: %v", err)
	}
}

func TestLineThatWasCutOffIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	stop := run(t, l)
	write(t, l, record("a"), record("b"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join(dir, "audit.jsonl")
	content, _ := os.ReadFile(newest)
	if err := os.WriteFile(newest, content[:len(content)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, options(dir))
	stop = run(t, l)
	write(t, l, record("c"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, ids(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := verify(bytes.NewReader(text(t, dir))); err != nil {
		t.Error(err)
	}
}

func TestFullQueueHoldsUpOnlyWhatMustBeWritten(t *testing.T) {
	registry := prometheus.NewRegistry()
	l := open(t, options(t.TempDir(), func(o *audit.Options) { o.Queue, o.Metrics = 2, registry }))
	write(t, l, record("a"), record("b"))
	write(t, l, record("lost"))
	err := l.Write(t.Context(), must(record("c"), audit.Start))
	var unwritable *audit.Unwritable
	if !errors.As(err, &unwritable) || unwritable.Fix == "" {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Write(ctx, must(record("d"), audit.End)); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got := lost(t, registry); got["happened"] != 1 || got["refused"] != 2 {
		t.Errorf("lost are %v", got)
	}
	if err := run(t, l)(); err != nil {
		t.Error(err)
	}
}

func lost(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "plural_hub_audit_lost_total" {
			for _, m := range f.GetMetric() {
				found[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return found
}

func TestWhatMustBeWrittenWaitsForRoom(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir, func(o *audit.Options) { o.Queue, o.Wait = 1, 10*time.Second }))
	write(t, l, record("a"))
	waited := make(chan error, 1)
	go func() { waited <- l.Write(context.Background(), must(record("b"), audit.Start)) }()
	stop := run(t, l)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, ids(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestDiskThatTakesNothingRefusesWhatMustBeWritten(t *testing.T) {
	dir := t.TempDir()
	o := options(dir, func(o *audit.Options) { o.MaxBytes, o.Wait = 1, 5*time.Second })
	l := open(t, o)
	stop := run(t, l)
	write(t, l, record("a"))
	until(t, "the first is written", func() bool { return len(l.Recent(1, nil)) == 1 })
	// a full file can make no room for the next one while its folder is not there
	away := dir + "-away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	write(t, l, record("b"))
	until(t, "what changes something is refused", func() bool {
		return l.Write(t.Context(), must(record("refused"), audit.Start)) != nil
	})
	write(t, l, record("c"), must(record("d"), audit.End)) // of what has happened
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	until(t, "the disk takes something again", func() bool {
		return l.Write(t.Context(), must(record("e"), audit.Start)) == nil
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(ids(t, dir), func(id string) bool { return id == "refused" })
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); diff != "" {
		t.Error(diff)
	}
	if err := verify(bytes.NewReader(text(t, dir))); err != nil {
		t.Error(err)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
		<-tick.C
	}
}

func TestNothingIsLostAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir, func(o *audit.Options) { o.Queue = 16 }))
	stop := run(t, l)
	var mu sync.Mutex
	var taken []string
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 200 {
				id := fmt.Sprint(w, "-", i)
				if l.Write(context.Background(), must(record(id), audit.End)) != nil {
					return
				}
				mu.Lock()
				taken = append(taken, id)
				mu.Unlock()
			}
		})
	}
	until(t, "some are written", func() bool { return len(l.Recent(100, nil)) == 100 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	got := ids(t, dir)
	slices.Sort(got)
	slices.Sort(taken)
	if diff := cmp.Diff(taken, got); diff != "" {
		t.Error(diff)
	}
	if err := l.Write(t.Context(), must(record("late"), audit.End)); err == nil {
		t.Error("a log that has ended takes records")
	}
}

func TestRecentAreTheNewestThatAreWanted(t *testing.T) {
	l := open(t, options(t.TempDir(), func(o *audit.Options) { o.Recent = 5 }))
	stop := run(t, l)
	for i := range 8 {
		write(t, l, record(fmt.Sprint(i)))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		n    int
		keep func(*audit.Record) bool
		want []string
	}{
		{10, nil, []string{"7", "6", "5", "4", "3"}},
		{2, nil, []string{"7", "6"}},
		{10, func(r *audit.Record) bool { return r.ID == "4" }, []string{"4"}},
		{0, nil, nil},
	}
	for _, test := range tests {
		var got []string
		for _, r := range l.Recent(test.n, test.keep) {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Open(options(filepath.Join(file, "audit"))); err == nil {
		t.Error("no error")
	}
}

// Whatever is in the file, the log goes on behind it, and the next line belongs to the last.
func FuzzLogGoesOn(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"id":"a","prev":""}` + "\n" + `{"id":"b"`))
	f.Add([]byte("\n\n\x00\xff"))
	f.Fuzz(func(t *testing.T, before []byte) {
		if len(before) > 1<<16 {
			return
		}
		dir := t.TempDir()
		newest := filepath.Join(dir, "audit.jsonl")
		if err := os.WriteFile(newest, before, 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, options(dir))
		stop := run(t, l)
		write(t, l, record("new-1"), record("new-2"))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(newest)
		if err != nil || !bytes.HasPrefix(after, before) {
			t.Fatalf("the log is %q, %v", after, err)
		}
		lines := bytes.Split(bytes.TrimSuffix(after, []byte("\n")), []byte("\n"))
		end := bytes.Join(lines[max(0, len(lines)-3):], []byte("\n"))
		if err := verify(io.Reader(bytes.NewReader(end))); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	l, err := audit.Open(options(b.TempDir(), func(o *audit.Options) { o.Wait = time.Minute }))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	r := must(record("a"), audit.End)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Write(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// Somebody with a token and no role at all pushed the records of everybody else out of the log, in less than a minute.
func TestWhoIsRefusedDoesNotFillTheLog(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	l := open(t, options(dir, func(o *audit.Options) { o.Now = func() time.Time { return now } }))
	stop := run(t, l)
	refused := record("eve")
	refused.Person, refused.Decision, refused.Cause = "eve", "denied", "no"
	const asked = 5000
	for range asked {
		write(t, l, refused)
	}
	other := refused
	other.Person, other.ID = "bob", "bob"
	write(t, l, record("ana"), other)
	if l.RefusedTooOften("eve") {
		t.Error("what clusters refuse her keeps eve from the hub")
	}
	for range 30 {
		write(t, l, must(refused, audit.End))
	}
	if !l.RefusedTooOften("eve") || l.RefusedTooOften("bob") || l.RefusedTooOften("ana") {
		t.Error("not eve, but somebody else is refused too often")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, id := range ids(t, dir) {
		count[id]++
	}
	if count["ana"] != 1 || count["bob"] != 1 || count["eve"] > 70 || count["eve"] < 60 {
		t.Errorf("lines are %v", count)
	}
	if want := fmt.Sprintf("no (%d like it, refused since the line before, have none)", asked-count["eve"]+30); !strings.Contains(string(text(t, dir)), want) {
		t.Errorf("nothing says %q:\n%.2000s", want, text(t, dir))
	}
}

func TestLinesAreHardlyLongerThanWhatTheyRepeat(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	stop := run(t, l)
	long := record("1")
	long.Path = strings.Repeat("&<>", 1000)
	write(t, l, long)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if size := len(text(t, dir)); size > len(long.Path)+500 {
		t.Errorf("%d bytes are %d in the log", len(long.Path), size)
	}
}

// A user may have the operator's name, and would have kept whoever has the hub's own token from the hub.
func TestAUserNamedAsTheOperatorIsRefusedApart(t *testing.T) {
	for _, operator := range []bool{false, true} {
		l := open(t, options(t.TempDir()))
		stop := run(t, l)
		refused := record("act")
		refused.Person, refused.Operator, refused.Decision = "operator", operator, "denied"
		for range 30 {
			write(t, l, must(refused, audit.End))
		}
		user, hubs := principal.Person{Name: "operator"}, principal.Person{Name: "operator", Operator: true}
		if l.RefusedTooOften(user.Key()) == operator || l.RefusedTooOften(hubs.Key()) != operator {
			t.Errorf("operator: %v, and somebody else is refused too often", operator)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}
