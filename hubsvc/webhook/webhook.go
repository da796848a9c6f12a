// Package webhook owns webhooks of git hosts.
//
// It refuses to believe a word of it but "look there now": a body names repositories, never what is in them, so a
// replay costs one question to the git host. It does not know what the hub follows either: whoever is given the URLs
// compares them, with [SameRepository].
//
// A request comes in under its host's path, is bounded, is verified as that host signs, is counted, and ends in a list of URLs
// for [Options.Hint].
package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/pluralsh/plural/internal/addrlimit"
)

const (
	// maxBody is more than any push of a person takes up; what hosts send beyond it is one that the next poll finds.
	maxBody = 1 << 20
	// maxURLs bounds the candidates out of one body, and maxURL each of them.
	maxURLs = 64
	maxURL  = 2 << 10
)

// The pace of requests that were found to be of a git host, or of somebody who may hint, all together: more delay hints at most
// until the next poll.
const (
	perSecond = rate.Limit(20)
	burst     = 100
)

// Each address has so many requests at once that prove nothing, and one more each of these; then nothing of it is read. What
// others send counts for nobody else, but a git host behind the same proxy.
const (
	failures    = 100
	failureEach = time.Second
)

// Options are what hooks need of the hub.
type Options struct {
	// Secret is what was entered at the git hosts; empty means that none is set up, and their requests are refused.
	Secret func() []byte
	// Hint is told the URLs under which a repository that changed is known, nil when it may be any. It returns at
	// once, and says whether the hub follows one of them.
	Hint func(urls []string) (known bool)
	// Check is nil for a request of somebody who may hint. A *Refused is answered as it says.
	Check func(*http.Request) error
	// Log gets what helps to set a hook up; nil means slog.Default.
	Log *slog.Logger
	// Metrics takes plural_hub_hooks_total; nil means that nobody counts.
	Metrics prometheus.Registerer
}

// Refused is why somebody may not hint.
type Refused struct {
	Status int
	Text   string
}

// Error is the text.
func (r *Refused) Error() string { return r.Text }

// Hooks answers the git hosts.
type Hooks struct {
	options Options
	pace    *rate.Limiter
	failed  *addrlimit.Limits
	total   *prometheus.CounterVec
}

// New makes the answers, and registers what counts them.
func New(options Options) *Hooks {
	if options.Log == nil {
		options.Log = slog.Default()
	}
	h := &Hooks{
		options: options,
		pace:    rate.NewLimiter(perSecond, burst),
		failed:  addrlimit.New(failures, failureEach, time.Now),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_hooks_total",
			Help: "Requests of git hosts, by host and by what became of them.",
		}, []string{"provider", "outcome"}),
	}
	if options.Metrics != nil {
		options.Metrics.MustRegister(h.total)
	}
	return h
}

// Routes adds POST /hooks/github, gitlab, gitea (also for Forgejo), bitbucket (Cloud and Data Center), and git, which
// is for whoever [Options.Check] lets through and takes, if they like, {"urls": [...]}.
func (h *Hooks) Routes(mux *http.ServeMux) {
	for _, p := range []provider{github(), gitlab(), gitea(), bitbucket()} {
		mux.HandleFunc("POST /hooks/"+p.name, func(w http.ResponseWriter, r *http.Request) {
			h.answer(w, p.name, h.fromHost(w, r, p), nil)
		})
	}
	mux.HandleFunc("POST /hooks/git", func(w http.ResponseWriter, r *http.Request) {
		o, why := h.fromAnybody(w, r)
		h.answer(w, "git", o, why)
	})
}

// outcome is what became of a request, as it is counted.
type outcome string

const (
	accepted     outcome = "accepted"
	unknown      outcome = "unknown" // of a repository that the hub does not follow
	ignored      outcome = "ignored" // not about refs
	limited      outcome = "limited"
	tooLarge     outcome = "too_large"
	malformed    outcome = "malformed"
	unauthorised outcome = "refused"
	notSetUp     outcome = "not_set_up"
)

// reply repeats nothing of the request. Whether the hub follows a repository is not told.
func (o outcome) reply() (status int, text string) {
	switch o {
	case accepted, unknown:
		return http.StatusAccepted, ""
	case ignored:
		return http.StatusNoContent, ""
	case limited:
		return http.StatusTooManyRequests, "too many hooks at once"
	case tooLarge:
		return http.StatusRequestEntityTooLarge, "want at most 1 MiB"
	case unauthorised:
		return http.StatusUnauthorized, "the hook wants the secret's signature"
	case notSetUp:
		return http.StatusUnauthorized, "the hub has no secret for hooks"
	case malformed:
	}
	return http.StatusBadRequest, "want the host's JSON about a push"
}

func (h *Hooks) answer(w http.ResponseWriter, provider string, o outcome, why *Refused) {
	h.total.WithLabelValues(provider, string(o)).Inc()
	h.options.Log.Debug("hook answered", "provider", provider, "outcome", string(o))
	if o == limited {
		w.Header().Set("Retry-After", "1")
	}
	status, text := o.reply()
	if why != nil {
		status, text = why.Status, why.Text
	}
	if status >= http.StatusBadRequest {
		http.Error(w, text, status)
		return
	}
	w.WriteHeader(status)
}

func (h *Hooks) fromHost(w http.ResponseWriter, r *http.Request, p provider) outcome {
	secret := h.options.Secret()
	if len(secret) == 0 {
		return notSetUp
	}
	sender := addrlimit.Sender(r)
	if h.failed.Spent(sender) {
		return limited
	}
	body, refused := readBody(w, r)
	if refused == "" && !p.authentic(r.Header, body, secret) {
		refused = unauthorised
	}
	if refused != "" {
		h.failed.Allow(sender)
		return refused
	}
	if !h.pace.Allow() {
		return limited
	}
	if !p.push(r.Header) {
		return ignored
	}
	urls, err := p.urls(payload(r, body))
	if err != nil {
		return malformed
	}
	if urls = usable(urls); len(urls) == 0 { // about no repository, such as most events of a whole GitLab
		return ignored
	}
	return h.hint(urls)
}

func (h *Hooks) fromAnybody(w http.ResponseWriter, r *http.Request) (outcome, *Refused) {
	sender := addrlimit.Sender(r)
	if h.failed.Spent(sender) {
		return limited, nil
	}
	if err := h.options.Check(r); err != nil {
		h.failed.Allow(sender)
		why := new(Refused)
		if !errors.As(err, &why) {
			why = nil
		}
		return unauthorised, why
	}
	if !h.pace.Allow() {
		return limited, nil
	}
	return h.named(w, r), nil
}

// named has those repositories looked at that a body names, or all.
func (h *Hooks) named(w http.ResponseWriter, r *http.Request) outcome {
	body, refused := readBody(w, r)
	if refused != "" {
		return refused
	}
	var named struct {
		URLs []string `json:"urls"`
	}
	if len(body) > 0 && json.Unmarshal(body, &named) != nil {
		return malformed
	}
	urls := usable(named.URLs)
	if len(named.URLs) > 0 && len(urls) == 0 {
		return malformed
	}
	return h.hint(urls)
}

func (h *Hooks) hint(urls []string) outcome {
	if !h.options.Hint(urls) {
		return unknown
	}
	return accepted
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, outcome) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case err != nil:
		return nil, malformed
	}
	return body, ""
}

// payload is the JSON of a body, which GitHub and Gitea also send inside a form.
func payload(r *http.Request, body []byte) []byte {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return body
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	return []byte(form.Get("payload"))
}

// usable leaves out what is no repository's URL, and repetitions; nil stays nil.
func usable(urls []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, url := range urls {
		name := normal(url)
		if name == "" || seen[name] || len(out) == maxURLs {
			continue
		}
		seen[name] = true
		out = append(out, url)
	}
	return out
}
