// Package servicetest owns the run of one test of a service on a live cluster.
//
// It refuses to know when a test is due, what a result leads to, and what the hub calls things.
//
// One test goes in with the service it is for; it is tried until it passes or has failed as often as it may; one Result
// comes out. Requests are made as the service's account when it has one. What a test makes in the cluster carries
// ServiceLabel and says for which deployment it ran, by which Sweep finds what older deployments left. The outcome of an object
// counts that this Runner made, and of no other: one that bears the same marks is made anew.
package servicetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/reserved"
	"github.com/pluralsh/plural/internal/netguard"
)

const (
	// DefaultTimeout is how long one try takes at most when its test does not say.
	DefaultTimeout = 2 * time.Minute
	// ServiceLabel names, on what a test made, the service that it is for.
	ServiceLabel = "plural.sh/test"

	// maxLog is how much of the end of what a test printed is kept, in bytes.
	maxLog = 4 << 10
	// maxMasked is how much of that end is searched for what Target.Mask hides, in bytes.
	maxMasked = 64 << 10
	// maxBegun is how much of a line is left out that was cut where it was read, in bytes.
	maxBegun = 1 << 10
	// maxMessage is the longest message, in bytes.
	maxMessage = 1 << 10
	// firstPause lies between the first two tries; each further one is twice as long, up to longestPause.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// cleanPatience is how long the collecting of logs, and the deletion of what a try leaves, may take when its own time is over.
	cleanPatience = 10 * time.Second
)

// Target is what is tested.
type Target struct {
	Service string
	// Namespace is the service's own: where its objects are unless a test says otherwise.
	Namespace string
	// Namespaces, when not empty, are the only ones that a test may touch.
	Namespaces []string
	// Key names the deployment that is tested.
	Key string
	// Account, when not empty, is the service account NAMESPACE/NAME as which every request is made.
	Account string
	// OwnRepository says that the service's files are the installation repo's own.
	OwnRepository bool
	// Hooks are the render's helm test hooks. They are not changed.
	Hooks []*unstructured.Unstructured
	// Mask hides what is secret in what a test prints or is answered, before that is cut: of a piece of it nobody could tell what it
	// was. Nil hides nothing.
	Mask func(text string) string
}

// excerpt is the end of a log, at most that many bytes, with nothing in it that is to be hidden. Cut says that there was more
// of the log than was read.
func (t *Target) excerpt(log string, cut bool, most int) string {
	if t.Mask == nil {
		return tail(log, most)
	}
	end := tail(log, maxMasked)
	if _, whole, ok := strings.Cut(end, "\n"); ok && len(end) < len(log) {
		end = whole // what stood on the line may have been cut
	}
	masked := t.Mask(end)
	if cut { // the beginning of what is to be hidden may be left
		masked = masked[:max(strings.LastIndexByte(masked, '\n')+1, len(masked)-maxBegun)]
	}
	return tail(masked, most)
}

// origin is by what the service is known whose test it is.
func (t *Target) origin() reserved.Service {
	return reserved.Service{Name: t.Service, Namespace: t.Namespace, OwnRepository: t.OwnRepository}
}

// Test is one test. Exactly one of HTTP, Job, CEL and Helm is set.
type Test struct {
	Name string
	HTTP *HTTP
	Job  *Job
	CEL  []Assertion
	Helm *Helm
	// Timeout is how long one try may take. Zero is DefaultTimeout.
	Timeout time.Duration
	// Retries is how many times a failed test is tried again.
	Retries int
}

// HTTP asks a Kubernetes Service something. A redirect is an answer like any other: it is not followed.
type HTTP struct {
	Service string
	// Namespace is the target's when empty.
	Namespace string
	// Port is a number or a name.
	Port string
	// Path has the query, too. Empty: the root.
	Path string
	// Method is GET when empty.
	Method string
	// Scheme is http when empty, or https. The Service's certificate is not verified.
	Scheme  string
	Headers map[string]string
	Body    string
	// Status is the one that passes; zero: any of 2xx.
	Status int
	// Contains is what the first 1 MiB of the answer must have in it.
	Contains string
	// ByName asks the Service by its own name in the cluster instead of through the API server's proxy.
	ByName bool
}

// Job runs a Job until it is done.
type Job struct {
	// Manifest is a whole Job, or a Job's spec. It is not changed.
	Manifest map[string]any
}

// Assertion is an expression of CEL that must be true.
type Assertion struct {
	Group, Version, Kind string
	// Namespace is the target's when empty; a kind without namespaces has none.
	Namespace string
	// Name is of the one object that is `self`. Empty: every object that fits Selector, as the list `items`, at most 500. What
	// a Secret holds reads as empty texts.
	Name, Selector string
	Expression     string
	// Message is what to say when the expression is false.
	Message string
}

// Helm runs a chart's own test hooks, in the order of their weights.
type Helm struct {
	// Hooks are the names of the Pods and Jobs to run. Empty: all.
	Hooks []string
}

// Result is how a test ended.
type Result struct {
	Name   string
	Passed bool
	// Message says why a test did not pass.
	Message string
	// Log is the end of what the last try printed, or of what it was answered; at most 4 KiB, as
	// Target.Mask leaves it. Nothing hides what Message says.
	Log   string
	Tries int
	// Took is the time of all tries, with what lay between them.
	Took time.Duration
}

// Runner tries tests. It is safe for concurrent use.
type Runner struct {
	config *rest.Config
	kinds  *kinds.Kinds
	made   *made
	// dial reaches a Service by its name in the cluster, and refuses what no Service is at: whoever writes a test, or the
	// endpoints of a Service without a selector, may name any address.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// New makes no request. The cluster is the one of config, which is not changed.
func New(config *rest.Config, kinds *kinds.Kinds) (*Runner, error) {
	r := &Runner{
		config: rest.CopyConfig(config), kinds: kinds, made: &made{of: make(map[types.UID]purpose)},
		dial: (&net.Dialer{Control: netguard.Policy{}.Control}).DialContext,
	}
	if _, err := r.as(""); err != nil {
		return nil, err
	}
	return r, nil
}

// Run tries a test until it passes, has failed as often as it may, or cannot pass as it is written; it blocks. When ctx ends
// before, the result says nothing about the service, and a Job or a hook that runs is left to the next Run or to Sweep.
func (r *Runner) Run(ctx context.Context, target Target, test Test) Result {
	start := time.Now()
	result := Result{Name: test.Name}
	for {
		result.Tries++
		outcome := r.try(ctx, target, test)
		result.Log = target.excerpt(outcome.log, false, maxLog)
		result.Passed = outcome.err == nil
		if result.Passed {
			result.Message = ""
			break
		}
		result.Message = clip(outcome.err.Error())
		var wrong *testError
		if errors.As(outcome.err, &wrong) || result.Tries > test.Retries || !pause(ctx, result.Tries) {
			break
		}
	}
	result.Took = time.Since(start)
	return result
}

// outcome is how one try ended: passed when there is no error.
type outcome struct {
	log string
	err error
}

// testError is a test that cannot pass as it is written, however often it is tried.
type testError struct{ message string }

func (e *testError) Error() string { return e.message }

func wrong(format string, args ...any) *testError { return &testError{fmt.Sprintf(format, args...)} }

func (r *Runner) try(ctx context.Context, target Target, test Test) outcome {
	client, err := r.as(target.Account)
	if err != nil {
		return outcome{err: err}
	}
	limit := test.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	timed, cancel := context.WithTimeoutCause(ctx, limit, &lateError{limit})
	defer cancel()
	a := attempt{client: client, kinds: r.kinds, made: r.made, target: target, limit: limit}
	switch {
	case test.HTTP != nil:
		return a.http(timed, *test.HTTP, r.dial)
	case test.Job != nil:
		return a.job(timed, test.Name, *test.Job)
	case test.CEL != nil:
		return a.assert(timed, test.CEL)
	case test.Helm != nil:
		return a.hooks(timed, *test.Helm)
	}
	return outcome{err: wrong("the test has nothing to try: give it one of http, job, cel and helm")}
}

// attempt is one try of a test.
type attempt struct {
	*client
	kinds  *kinds.Kinds
	made   *made
	target Target
	limit  time.Duration
}

// namespace is where a test looks that names this one, or none.
func (a attempt) namespace(named string) (string, error) {
	if named == "" {
		named = a.target.Namespace
	}
	if len(a.target.Namespaces) == 0 {
		return named, nil
	}
	for _, allowed := range a.target.Namespaces {
		if named == allowed {
			return named, nil
		}
	}
	return "", wrong("namespace %q is not one of the service's allowed namespaces: %s", named, strings.Join(a.target.Namespaces, ", "))
}

// pause waits before the next try, and says whether there is to be one.
func pause(ctx context.Context, tries int) bool {
	wait := min(firstPause<<min(tries-1, 10), longestPause)
	wait += time.Duration(rand.Int64N(int64(wait) / 5))
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// because is why something failed: that its time was over says more than that it was cancelled.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// clip keeps the beginning of a message, in whole characters.
func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// tail keeps the end of a log, at most that many bytes, in whole characters of valid UTF-8.
func tail(log string, most int) string {
	log = strings.ToValidUTF8(log, "\uFFFD")
	if len(log) <= most {
		return log
	}
	start := len(log) - most
	for start < len(log) && !utf8.RuneStart(log[start]) {
		start++
	}
	return log[start:]
}
