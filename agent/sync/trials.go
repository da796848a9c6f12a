package sync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

// What is applied and healthy is tried by its tests, beside the loop. An outcome holds for a key with a test's definition, and
// is remembered over a restart. A test that gates, and fails, puts the key into quarantine: the deployment before it is applied
// again, and the key never, until the hub names another one or another test.

// trial is a test under way.
type trial struct {
	name   string // of the outcome
	test   string
	cancel context.CancelFunc
}

// outcome is what a trial leaves behind.
type outcome struct {
	service, name string
	report        *api.TestReport
	interrupted   bool
}

// maxTrials is how many tests run at once: they wait most of the time. A service has one at a time.
const maxTrials = 4

// maxTried is how many reaches of one service's tests are remembered.
const maxTried = 32

// maxLog bounds what a report repeats of a test's output.
const maxLog = 4 << 10

// testName names an outcome: of a test as it is written, for a key.
func testName(key string, t *api.Test) string {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	if err != nil {
		return "" // what came over the wire always goes back
	}
	sum := sha256.Sum256(append([]byte(key+"\n"), body...))
	return hex.EncodeToString(sum[:])[:identityDigits]
}

// outcomes are the names of the outcomes of the newest deployment's tests.
func (svc *service) outcomes() []string {
	if svc.named == svc.desired {
		return svc.names
	}
	svc.named, svc.names = svc.desired, nil
	for _, t := range svc.desired.GetTests() {
		svc.names = append(svc.names, testName(svc.desired.GetKey(), t))
	}
	return svc.names
}

// gatesPassed says whether every test passed that keeps the newest deployment from being gone back to.
func (svc *service) gatesPassed() bool {
	for i, name := range svc.outcomes() {
		if svc.desired.GetTests()[i].GetGate() && svc.memory.Tests[name].GetOutcome() != api.TestReport_PASSED {
			return false
		}
	}
	return true
}

// gated says whether tests keep the newest deployment from becoming the last good one. One that is good already stays so.
func (svc *service) gated() bool {
	return svc.desired != nil && svc.good.GetKey() != svc.desired.GetKey() && !svc.gatesPassed()
}

// retest forgets what says nothing of the newest deployment: outcomes, a trial, a quarantine.
func (svc *service) retest() {
	names := make(map[string]bool)
	for _, name := range svc.outcomes() {
		names[name] = true
	}
	if svc.trial != nil && !names[svc.trial.name] {
		svc.trial.cancel()
	}
	if svc.desired == nil || svc.desired.GetHold() != "" {
		return // the key may come back
	}
	if svc.memory.Quarantined != "" && !names[svc.memory.Test] {
		svc.memory.Quarantined, svc.memory.Reason, svc.memory.Test = "", "", ""
	}
	svc.memory.Tests = maps.Clone(svc.memory.Tests)
	maps.DeleteFunc(svc.memory.Tests, func(name string, _ *api.TestReport) bool { return !names[name] })
}

// untried is the next test to run: which of the newest deployment's it is, or -1.
func (svc *service) untried() int {
	if svc.trial != nil || !svc.healthy() || svc.quarantined() {
		return -1
	}
	return slices.IndexFunc(svc.outcomes(), func(name string) bool { return svc.memory.Tests[name] == nil })
}

// try starts the tests that may run.
func (s *Syncer) try(ctx context.Context, state *loopState) {
	if s.Checks == nil || state.trials >= maxTrials {
		return
	}
	var ready []*service
	for _, svc := range state.services {
		if len(svc.desired.GetTests()) > 0 && svc.untried() >= 0 {
			ready = append(ready, svc)
		}
	}
	slices.SortFunc(ready, func(a, b *service) int { return strings.Compare(a.name, b.name) })
	for _, svc := range ready[:min(len(ready), maxTrials-state.trials)] {
		s.startTrial(ctx, state, svc)
	}
}

func (s *Syncer) startTrial(ctx context.Context, state *loopState, svc *service) {
	at := svc.untried()
	t, name := svc.desired.GetTests()[at], svc.outcomes()[at]
	trying, cancel := context.WithCancel(ctx)
	svc.trial = &trial{name, t.GetName(), cancel}
	s.rememberTried(svc)
	state.trials++
	w := svc.work(state)
	go func() { // awaited by the loop: every trial sends one outcome
		report := s.trying(trying, w, t)
		s.tried <- outcome{svc.name, name, report, trying.Err() != nil}
	}()
	svc.compose()
	state.news = true
}

// rememberTried notes where the newest deployment's tests go, before they do.
func (s *Syncer) rememberTried(svc *service) {
	tried := addReach(svc.memory.Tried, svc.desired)
	if slices.EqualFunc(tried, svc.memory.Tried, sameReach) {
		return
	}
	if len(tried) > maxTried {
		s.Log.Warn("what tests left is not deleted there: the service was tried in too many places since", "service", svc.name,
			"namespace", tried[0].Namespace, "account", tried[0].Account, "namespaces", tried[0].Namespaces)
		tried = tried[1:]
	}
	svc.memory.Tried = tried
	s.save(svc)
}

// addReach is a copy of tried in which a deployment's reach is the newest.
func addReach(tried []store.Reach, d *api.Deployment) []store.Reach {
	reach := store.Reach{Namespace: d.GetNamespace(), Account: d.GetServiceAccount(), Namespaces: d.GetAllowedNamespaces()}
	others := slices.DeleteFunc(slices.Clone(tried), func(other store.Reach) bool { return sameReach(other, reach) })
	return append(others, reach)
}

func sameReach(a, b store.Reach) bool {
	return a.Namespace == b.Namespace && a.Account == b.Account && slices.Equal(a.Namespaces, b.Namespaces)
}

// sweep deletes what tests left, and logs, once for each deployment, what of it was not done as the service.
func (p *pass) sweep(ctx context.Context, target servicetest.Target, keep string) (notes []string, err error) {
	notes, err = p.Checks.Sweep(ctx, target, keep)
	for _, note := range notes {
		if _, told := p.noted.LoadOrStore(note, true); !told {
			p.Log.Warn("sweep after tests", "service", p.service, "note", note)
		}
	}
	return notes, err
}

// sweepAll deletes, once in a removal, what tests left of a service that is to go. What a try notes stays noted when the next one
// finds nothing more to do. Neither its notes nor its error repeat anything that was sealed.
func (p *pass) sweepAll(ctx context.Context) error {
	if p.Checks == nil || p.swept {
		return nil
	}
	var notes, failures []string
	for _, reach := range p.reaches {
		more, err := p.sweep(ctx, servicetest.Target{
			Service: p.service, Namespace: reach.Namespace, Namespaces: reach.Namespaces, Account: reach.Account,
		}, "")
		notes = append(notes, more...)
		if err != nil {
			failures = append(failures, "what its tests left cannot be deleted: "+err.Error())
		}
	}
	if len(notes)+len(failures) == 0 {
		return nil
	}
	sealed := slices.Concat(p.secrets(ctx, p.last), p.secrets(ctx, p.good))
	r := &p.result
	for _, note := range notes {
		note = clip(unseal.Redact(note, sealed), maxNote)
		if len(r.sweepNotes) < maxSweepNotes && !slices.Contains(r.sweepNotes, note) {
			r.sweepNotes = append(r.sweepNotes, note)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return errors.New(unseal.Redact(strings.Join(failures, "\n"), sealed))
}

// targetOf is where tests of a service's deployment run, and as who.
func targetOf(service string, d *api.Deployment) servicetest.Target {
	return servicetest.Target{
		Service: service, Namespace: d.GetNamespace(), Namespaces: d.GetAllowedNamespaces(), Key: d.GetKey(),
		Account: d.GetServiceAccount(), OwnRepository: d.GetOwnRepository(),
	}
}

// trying runs a test. What it says repeats nothing that was sealed.
func (s *Syncer) trying(ctx context.Context, w work, t *api.Test) *api.TestReport {
	d := w.desired
	p := &pass{Syncer: s, work: w, result: result{service: w.service, desired: d, good: w.good}}
	report := &api.TestReport{Name: t.GetName(), Key: d.GetKey(), Outcome: api.TestReport_FAILED}
	test, err := check(t)
	target := targetOf(d.GetService(), d)
	target.Mask = func(text string) string { return p.silence(ctx, d, text) }
	if err == nil && test.Helm != nil {
		target.Hooks, err = p.testHooks(ctx, d)
	}
	if _, left := p.sweep(ctx, target, d.GetKey()); left != nil && ctx.Err() == nil {
		s.Log.Warn("what older tests left cannot be deleted", "service", d.GetService(), "error", p.silence(ctx, d, left.Error()))
	}
	if err != nil {
		report.Message = p.silence(ctx, d, err.Error())
	} else {
		r := s.Checks.Run(ctx, target, test)
		if r.Passed {
			report.Outcome = api.TestReport_PASSED
		}
		report.Message, report.Log = p.silence(ctx, d, r.Message), r.Log
		report.Tries, report.TookMs = int32(r.Tries), r.Took.Milliseconds()
	}
	report.Message, report.Log = clip(report.GetMessage(), maxMessage), tail(report.GetLog(), maxLog)
	report.FinishedUnixMs = time.Now().UnixMilli()
	return report
}

// testHooks are the objects of a deployment's render that are tests.
func (p *pass) testHooks(ctx context.Context, d *api.Deployment) ([]*unstructured.Unstructured, error) {
	identity, _, err := p.identity(d, p.asks, p.can)
	if err != nil {
		return nil, err
	}
	objects, err := p.objects(ctx, d, identity)
	if err != nil {
		return nil, err
	}
	return servicetest.HooksOf(objects, d.GetKey()), nil
}

// conclude takes a trial's outcome in.
func (s *Syncer) conclude(state *loopState, o outcome) {
	state.trials--
	svc := state.services[o.service]
	if svc == nil || svc.trial == nil || svc.trial.name != o.name {
		return // it went, and perhaps came back, meanwhile
	}
	svc.trial.cancel()
	svc.trial = nil
	if o.interrupted || svc.desired.GetKey() != o.report.GetKey() {
		return
	}
	svc.memory.Tests = maps.Clone(svc.memory.Tests)
	if svc.memory.Tests == nil {
		svc.memory.Tests = make(map[string]*api.TestReport, 1)
	}
	svc.memory.Tests[o.name] = o.report
	failed := o.report.GetOutcome() == api.TestReport_FAILED
	s.Log.Info("service was tested", "service", svc.name, "key", o.report.GetKey(), "test", o.report.GetName(), "passed", !failed)
	at := slices.Index(svc.outcomes(), o.name)
	if failed && at >= 0 && svc.desired.GetTests()[at].GetGate() && svc.good.GetKey() != svc.desired.GetKey() {
		svc.memory.Quarantined, svc.memory.Test = svc.desired.GetKey(), o.name
		svc.memory.Reason = clip("in quarantine: "+failure(o.report), maxMessage)
		s.Log.Warn("deployment is in quarantine", "service", svc.name, "key", svc.desired.GetKey(), "test", o.report.GetName())
	}
	s.save(svc)
	if svc.good.GetKey() != svc.desired.GetKey() && (svc.gatesPassed() || svc.quarantined()) {
		svc.wake(time.Now()) // it becomes the last good one, or that is gone back to
	}
	svc.compose()
}

// save keeps what is remembered of a service over a restart.
func (s *Syncer) save(svc *service) {
	if err := s.Store.SaveMemory(svc.name, svc.remember()); err != nil {
		s.Log.Error("what is known of a service cannot be kept over a restart", "service", svc.name, "error", err)
	}
}

func failure(r *api.TestReport) string {
	if r.GetMessage() == "" {
		return "test " + r.GetName() + " failed"
	}
	return "test " + r.GetName() + " failed: " + r.GetMessage()
}

// compose makes the status that is reported: what the last pass found, with what the tests found.
func (svc *service) compose() {
	svc.status = svc.found
	if svc.found == nil || len(svc.desired.GetTests()) == 0 {
		return
	}
	svc.status = proto.CloneOf(svc.found)
	var open []string
	var failed string
	for i, t := range svc.desired.GetTests() {
		r := svc.memory.Tests[svc.outcomes()[i]]
		if r == nil {
			r = &api.TestReport{Name: t.GetName(), Key: svc.desired.GetKey(), Outcome: api.TestReport_WAITING}
			if svc.trial != nil && svc.trial.test == t.GetName() {
				r.Outcome = api.TestReport_RUNNING
			}
			open = append(open, t.GetName())
		}
		if failed == "" && r.GetOutcome() == api.TestReport_FAILED {
			failed = failure(r)
		}
		svc.status.Tests = append(svc.status.Tests, r)
	}
	if svc.quarantined() && svc.found.GetKey() == svc.desired.GetKey() && svc.found.GetQuarantinedKey() == "" {
		// What was found is from before the test failed, and the pass that goes back is not over: nobody may take it for healthy.
		svc.status.Phase, svc.status.Message = api.Phase_FAILED, svc.memory.Reason
		svc.status.QuarantinedKey = svc.memory.Quarantined
	}
	if !svc.healthy() {
		return
	}
	switch {
	case failed != "":
		svc.status.Phase, svc.status.Message = api.Phase_DEGRADED, clip(failed, maxMessage)
	case len(open) > 0:
		svc.status.Phase, svc.status.Message = api.Phase_PROGRESSING, clip("tests run: "+strings.Join(open, ", "), maxMessage)
	}
}

// tail is the end of a text that a report can carry.
func tail(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-most:], "")
}
