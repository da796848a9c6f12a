package fleet

import (
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// Sink is where notifications go: notify/*.yaml.
type Sink struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata            `yaml:"metadata" json:"metadata"`
	Spec     SinkSpec            `yaml:"spec" json:"spec"`
	Position Position            `yaml:"-" json:"-"`
	Fields   map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (s *Sink) Place(field string) Position { return yamlstrict.Place(s.Fields, field, s.Position) }

// SinkSpec holds exactly one kind of sink.
type SinkSpec struct {
	// Webhook is a URL that is sent JSON.
	Webhook *WebhookSink `yaml:"webhook,omitempty" json:"webhook,omitempty"`
	// Slack is an incoming webhook of Slack.
	Slack *SlackSink `yaml:"slack,omitempty" json:"slack,omitempty"`
	// File is a file of the hub's.
	File *FileSink `yaml:"file,omitempty" json:"file,omitempty"`
	// Syslog is a server that takes syslog messages over TCP.
	Syslog *SyslogSink `yaml:"syslog,omitempty" json:"syslog,omitempty"`
	// Audit sends this sink the hub's audit log, all of it and nothing else. Left out: the sink gets what Routes send it.
	Audit bool `yaml:"audit,omitempty" json:"audit,omitempty" default:"false"`
}

// WebhookSink is a URL that is sent JSON.
type WebhookSink struct {
	// URL is https; http is for a server on the hub's own machine alone.
	URL string `yaml:"url" json:"url"`
	// Secret is a file of the installation repo, sealed for the group hub: the key that every message is signed with.
	// Empty: messages are not signed.
	Secret string `yaml:"secret,omitempty" json:"secret,omitempty"`
}

// SlackSink is an incoming webhook of Slack.
type SlackSink struct {
	// Secret is a file of the installation repo, sealed for the group hub: the webhook's URL.
	Secret string `yaml:"secret" json:"secret"`
}

// FileSink is a file that lines of JSON are added to.
type FileSink struct {
	// Path is relative to the folder that the hub keeps for this.
	Path string `yaml:"path" json:"path"`
}

// SyslogSink is a server that takes syslog messages over TCP: RFC 5424, framed by octet counting.
type SyslogSink struct {
	// URL is tls://HOST:PORT; tcp://HOST:PORT is for a server on the hub's own machine alone.
	URL string `yaml:"url" json:"url"`
}

// Route says which events become notifications, and where to: notify/*.yaml.
type Route struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata            `yaml:"metadata" json:"metadata"`
	Spec     RouteSpec           `yaml:"spec" json:"spec"`
	Position Position            `yaml:"-" json:"-"`
	Fields   map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (r *Route) Place(field string) Position { return yamlstrict.Place(r.Fields, field, r.Position) }

// RouteSpec names a sink. All conditions given must hold.
type RouteSpec struct {
	// Sink is the name of a Sink.
	Sink string `yaml:"sink" json:"sink"`
	// Reasons are those of events, such as Failed. Empty: any.
	Reasons []string `yaml:"reasons,omitempty" json:"reasons,omitempty"`
	// Services picks by name and by labels of the Service. Left out: all, and what is of no service.
	Services *Selector `yaml:"services,omitempty" json:"services,omitempty"`
	// Clusters are those that the events are about. Left out: all.
	Clusters *Selector `yaml:"clusters,omitempty" json:"clusters,omitempty"`
	// MinSeverity is warning or normal. Empty means warning.
	MinSeverity string `yaml:"minSeverity,omitempty" json:"minSeverity,omitempty" enum:"normal,warning" default:"warning"`
	// Every is how often one and the same may be said again: "5m". Empty means five minutes.
	Every string `yaml:"every,omitempty" json:"every,omitempty" default:"5m"`
}

// Severities of events.
const (
	SeverityNormal  = "normal"
	SeverityWarning = "warning"
)

// DefaultEvery is how often a Route that says nothing of it lets the same be said again.
const DefaultEvery = 5 * time.Minute

// Interval is Every, as it was checked when the fleet was read.
func (r *RouteSpec) Interval() time.Duration {
	if every, err := time.ParseDuration(r.Every); err == nil {
		return every
	}
	return DefaultEvery
}

// Bounds of Route.spec.every.
const (
	minEvery = time.Second
	maxEvery = 7 * 24 * time.Hour
)

func (d *document) checkSink(s *Sink) {
	d.checkName("metadata.name", s.Metadata.Name)
	kinds := 0
	if w := s.Spec.Webhook; w != nil {
		kinds++
		d.checkWebhookURL("spec.webhook.url", w.URL)
		d.checkFilePath("spec.webhook.secret", w.Secret)
	}
	if s.Spec.Slack != nil {
		kinds++
		d.checkFilePath("spec.slack.secret", s.Spec.Slack.Secret)
	}
	if s.Spec.File != nil {
		kinds++
		d.checkFilePath("spec.file.path", s.Spec.File.Path)
	}
	if s.Spec.Syslog != nil {
		kinds++
		d.checkSyslogURL("spec.syslog.url", s.Spec.Syslog.URL)
	}
	switch {
	case kinds == 0:
		d.Fault("spec", "add webhook: {url: ...}, slack: {secret: ...}, file: {path: ...} or syslog: {url: ...}", "sink that leads nowhere")
	case kinds > 1:
		d.Fault("spec", "make a sink of each, and a route to each", "sink of more than one kind")
	case s.Spec.Audit && s.Spec.Slack != nil:
		d.Fault("spec.audit", "take a webhook, a file or syslog", "Slack takes no audit log: it is made for programs")
	}
}

// reasonWord is what the reason of an event looks like.
var reasonWord = lazily(`^[A-Z][A-Za-z]{0,63}$`)

// checkWebhookURL wants one that is encrypted, or on this machine.
func (d *document) checkWebhookURL(field, raw string) {
	before := d.Faults.Len()
	d.checkURL(field, raw, "https", "http")
	u, err := url.Parse(raw)
	if raw == "" || err != nil || d.Faults.Len() > before {
		return
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		d.Fault(field, "write https://...", "%s is not encrypted, which is for a server on this machine alone", field)
	}
}

// checkSyslogURL wants a server with its port, and one that is encrypted or on this machine.
func (d *document) checkSyslogURL(field, raw string) {
	before := d.Faults.Len()
	d.checkURL(field, raw, "tls", "tcp")
	u, err := url.Parse(raw)
	if raw == "" || err != nil || d.Faults.Len() > before {
		return
	}
	switch {
	case u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		d.Fault(field, "write tls://HOST:6514", "%s is not the address of a syslog server", field)
	case u.Scheme == "tcp" && !loopback(u.Hostname()):
		d.Fault(field, "write tls://...", "%s is not encrypted, which is for a server on this machine alone", field)
	}
}

func (d *document) checkRoute(r *Route) {
	d.checkName("metadata.name", r.Metadata.Name)
	d.checkCount("spec.reasons", "reasons", len(r.Spec.Reasons), maxPerRule)
	for i, reason := range r.Spec.Reasons {
		if !reasonWord().MatchString(reason) {
			d.Fault(index("spec.reasons", i), "write one word, such as Failed", "bad reason %s", yamlstrict.Quote(reason))
		}
	}
	if r.Spec.Services != nil {
		d.checkSelector("spec.services", r.Spec.Services, "services")
	}
	if r.Spec.Clusters != nil {
		d.checkSelector("spec.clusters", r.Spec.Clusters, "clusters")
	}
	if r.Spec.Every == "" {
		return
	}
	if every, err := time.ParseDuration(r.Spec.Every); err != nil || every < minEvery || every > maxEvery {
		d.Fault("spec.every", `write a time between 1s and 168h, such as "5m"`, "bad interval %s", yamlstrict.Quote(r.Spec.Every))
	}
}

// files are the files that a sink names, by field. Paths that are none were reported.
func (s *Sink) files() map[string]string {
	named := map[string]string{}
	add := func(field, name string) {
		if name != "." && fs.ValidPath(name) {
			named[field] = name
		}
	}
	if s.Spec.Webhook != nil {
		add("spec.webhook.secret", s.Spec.Webhook.Secret)
	}
	if s.Spec.Slack != nil {
		add("spec.slack.secret", s.Spec.Slack.Secret)
	}
	return named
}

// checkNotify reports names in notify/ that nothing in the fleet has.
func checkNotify(f *Fleet, known *known, out *yamlstrict.Faults) {
	for i := range f.Routes {
		r := &f.Routes[i]
		refer(r, "spec.sink", "sink", r.Spec.Sink, known.sinks, out)
		if sink, ok := f.Sink(r.Spec.Sink); ok && sink.Spec.Audit {
			out.Add(r.Place("spec.sink"), "make another sink for events", "sink %s has audit: true, and gets the audit log alone",
				yamlstrict.Quote(r.Spec.Sink))
		}
		if r.Spec.Services != nil {
			referAll(r, "spec.services.names", "service", r.Spec.Services.Names, known.services, out)
		}
		if r.Spec.Clusters != nil {
			referAll(r, "spec.clusters.names", "cluster", r.Spec.Clusters.Names, known.clusters, out)
		}
	}
}
