package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// expiring is how soon a certificate must end to be worth a warning.
	expiring = 14 * 24 * time.Hour
	// maxHealth bounds what is read of a hub's answer about its health, in bytes.
	maxHealth = 4 << 10
)

// hubs are the checks of the hub, and of what it says of agents.
func (x *exam) hubs() []Check {
	host := Check{Group: "hub", Name: "repo's host", Before: true, Run: x.repoHost}
	if x.HubURL == "" {
		return []Check{{Group: "hub", Name: "name", Before: true, Run: func(context.Context) Result {
			return skipped("nothing says where the hub is: spec.hub.url in plural.yaml, --hub, PLURAL_HUB")
		}}, host}
	}
	return []Check{
		{Group: "hub", Name: "name", Before: true, Run: x.hubName},
		host,
		{Group: "hub", Name: "health", Run: x.health},
		{Group: "hub", Name: "certificate", Run: x.certificate},
		{Group: "hub", Name: "clock", Run: x.hubClock},
		{Group: "hub", Name: "log-in", Run: x.login},
		{Group: "hub", Name: "operator's token", Run: x.operatorToken},
		{Group: "hub", Name: "hub's disk", Run: x.hubDisk},
		{Group: "hub", Name: "version", Run: x.hubVersion},
		{Group: "hub", Name: "commit", Run: x.served},
		{Group: "hub", Name: "sources", Run: x.sources},
		{Group: "hub", Name: "notices", Run: x.notices},
		{Group: "hub", Name: "agents", Run: x.agents},
		{Group: "hub", Name: "kubernetes", Run: x.kubernetes},
	}
}

// hubName looks the hub's name up.
func (x *exam) hubName(ctx context.Context) Result {
	return lookUp(ctx, x.HubURL, "let DNS name the hub's address, or correct spec.hub.url in plural.yaml")
}

// repoHost looks up from where the hub fetches.
func (x *exam) repoHost(ctx context.Context) Result {
	w := x.manifest(ctx)
	if w == nil || w.Spec.Repo.URL == "" {
		return skipped("plural.yaml does not say where the hub fetches the repo from")
	}
	return lookUp(ctx, w.Spec.Repo.URL, "correct spec.repo.url in plural.yaml, or the DNS of this network")
}

func lookUp(ctx context.Context, address, fix string) Result {
	at, proxied := hostPort(address)
	host, _, err := net.SplitHostPort(at)
	switch {
	case at == "" || err != nil:
		return skipped("its address names no host")
	case net.ParseIP(host) != nil:
		return ok("%s is an address", host)
	case proxied:
		return skipped("a proxy looks up %s", host)
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return because(err, fmt.Sprintf("the name %q has no address", host), fix)
	}
	return ok("%s is %s", host, some(found))
}

// reply is a hub's answer about its health.
type reply struct {
	status int
	text   string
	// planner is how the hub takes up new commits, one of v1.PlannerWell and v1.PlannerStuck.
	planner string
	clock   clock
	tls     *tls.ConnectionState // nil without TLS
}

// askHub asks whether the hub is ready, as nobody.
func (x *exam) askHub(ctx context.Context) (*reply, error) {
	if x.NoHub != nil {
		return nil, x.NoHub
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if len(x.HubCA) > 0 && !pool.AppendCertsFromPEM(x.HubCA) {
		return nil, errors.New("the file of PLURAL_CA_FILE holds no certificate")
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(x.HubURL, "/")+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	sent := x.Now()
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		var transport *url.Error
		if errors.As(err, &transport) {
			err = transport.Err // the address is told already
		}
		return nil, err
	}
	defer answer.Body.Close()
	r := &reply{status: answer.StatusCode, clock: newClock(answer, sent, x.Now()), tls: answer.TLS}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxHealth))
	r.text = strings.TrimSpace(string(text))
	r.planner = answer.Header.Get(v1.PlannerHeader)
	if r.planner == "" && strings.Contains(r.text, "planner is stuck") { // hubs of releases before this one say it in words alone
		r.planner = v1.PlannerStuck
	}
	return r, err
}

func (x *exam) health(ctx context.Context) Result {
	r, err := x.hub(ctx)
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var named x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return because(err, "the hub's certificate has ended", "renew it where the hub, or its ingress, has it from")
	case errors.As(err, &unknown):
		return because(err, "nobody that this machine trusts has signed the hub's certificate",
			"let PLURAL_CA_FILE name the authority's certificate")
	case errors.As(err, &named):
		return because(err, "the hub's certificate is for another name", "correct spec.hub.url, or the certificate")
	case err != nil:
		fix := "see that it runs: kubectl -n plural-system get pods; and that this is its address"
		if x.Local {
			fix = "see whether it runs: plural local list; plural up --local brings the fleet back, plural local start hub the hub alone"
		}
		return because(err, "the hub at "+x.HubURL+" cannot be reached", fix)
	case r.status != http.StatusOK:
		fault := fail("plural logs hub", "the hub is not ready: it answers %d", r.status)
		fault.Cause = fmt.Sprintf("%.300s", r.text)
		return fault
	}
	if r.planner == v1.PlannerStuck {
		fault := warn("plural logs hub; a restart of its pods makes it look anew", "the hub serves, and takes up no new commits")
		fault.Cause = fmt.Sprintf("%.300s", r.text)
		return fault
	}
	return ok("%s is ready", x.HubURL)
}

// answered is the hub's answer; without one the result says why a check is skipped.
func (x *exam) answered(ctx context.Context) (*reply, Result) {
	r, err := x.hub(ctx)
	if err != nil {
		return nil, skipped("the hub cannot be reached")
	}
	return r, Result{State: OK}
}

func (x *exam) certificate(ctx context.Context) Result {
	r, why := x.answered(ctx)
	if r == nil {
		return why
	}
	if r.tls == nil || len(r.tls.PeerCertificates) == 0 {
		if host, _ := hostPort(x.HubURL); loopback(host) {
			return skipped("the hub is on this machine, and speaks without TLS")
		}
		return warn("give the hub TLS, or an ingress that has it",
			"the hub speaks without TLS: whoever is on the way can read the tokens of people and agents")
	}
	if stuck := x.stuckCertificate(ctx); stuck != nil {
		return *stuck
	}
	end := r.tls.PeerCertificates[0].NotAfter
	if left := end.Sub(x.Now()); left < expiring {
		return warn("renew it", "the hub's certificate ends in %s", plural(int(left/(24*time.Hour)), "day", "days"))
	}
	return ok("the hub's certificate is good until %s", end.UTC().Format(time.DateOnly))
}

// stuckCertificate is what the hub says of a renewed certificate that it cannot show; nil when it says nothing of the kind.
func (x *exam) stuckCertificate(ctx context.Context) *Result {
	if x.Hub == nil {
		return nil
	}
	hub, err := x.Hub.Hub(ctx)
	if err != nil {
		return nil // the check of the log-in says it
	}
	for _, c := range hub.Certificates {
		if c.Error != "" {
			r := warn("write a certificate and its key that belong together into the hub's files: it takes them up by itself",
				"the hub cannot use the renewed certificate %q, and shows one that ends on %s", c.Name, c.Ends.Format(time.DateOnly))
			r.Cause = fmt.Sprintf("%.300s", c.Error)
			return &r
		}
	}
	return nil
}

func loopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (x *exam) hubClock(ctx context.Context) Result {
	r, why := x.answered(ctx)
	if r == nil {
		return why
	}
	return r.clock.judge("the hub's")
}

func (x *exam) login(ctx context.Context) Result {
	if r, why := x.answered(ctx); r == nil {
		return why
	}
	if x.Hub == nil {
		return skipped("there is no way to ask the hub")
	}
	me, err := x.Hub.Me(ctx)
	if err != nil {
		r := because(err, "the hub does not know you", "plural auth login")
		r.State = Warn
		return r
	}
	return ok("the hub knows you as %s", me.Name)
}

// operatorToken tells of a token of the operator's that is to be renewed.
func (x *exam) operatorToken(ctx context.Context) Result {
	if r, why := x.answered(ctx); r == nil {
		return why
	}
	if x.Hub == nil {
		return skipped("there is no way to ask the hub")
	}
	hub, err := x.Hub.Hub(ctx)
	switch {
	case err != nil:
		return skipped("the hub does not tell you of itself")
	case hub.TokenWarning != "":
		return warn("plural up again, or plural hub token FILE where the hub runs", "%s", hub.TokenWarning)
	}
	return ok("it need not be renewed")
}

// hubDisk tells of a hub that cannot write down what is to last over a restart.
func (x *exam) hubDisk(ctx context.Context) Result {
	if r, why := x.answered(ctx); r == nil {
		return why
	}
	if x.Hub == nil {
		return skipped("there is no way to ask the hub")
	}
	hub, err := x.Hub.Hub(ctx)
	switch {
	case err != nil:
		return skipped("the hub does not tell you of itself")
	case hub.StoreError != "":
		r := warn("make room in the hub's data folder: it writes again by itself, and needs no restart",
			"the hub's disk takes nothing: reports are in its memory alone")
		r.Cause = fmt.Sprintf("%.300s", hub.StoreError)
		return r
	}
	return ok("it takes what the hub writes")
}

// askStatus asks how the fleet is.
func (x *exam) askStatus(ctx context.Context) (*v1.Status, error) {
	if x.Hub == nil {
		return nil, errors.New("there is no way to ask the hub")
	}
	return x.Hub.Status(ctx)
}

// told is what the hub says of the fleet; without an answer the result says why a check is skipped.
func (x *exam) told(ctx context.Context) (*v1.Status, Result) {
	if r, why := x.answered(ctx); r == nil {
		return nil, why
	}
	s, err := x.status(ctx)
	if err != nil {
		return nil, skipped("the hub does not tell you how the fleet is")
	}
	return s, Result{State: OK}
}

func (x *exam) served(ctx context.Context) Result {
	s, why := x.told(ctx)
	if s == nil {
		return why
	}
	switch {
	case len(s.Refused) > 0:
		r := fail("plural validate, then commit and push what mends it",
			"the hub refuses commit %.7s, and serves %.7s", s.Head.ID, s.Commit.ID)
		r.Cause = s.Refused[0].Message
		return r
	case s.Commit.ID == "":
		return fail("plural logs hub", "the hub has no commit to serve")
	}
	return ok("the hub serves commit %.7s", s.Commit.ID)
}

// sources tells of repositories that the hub cannot fetch, or that left their history.
func (x *exam) sources(ctx context.Context) Result {
	s, why := x.told(ctx)
	if s == nil {
		return why
	}
	var failing, rewound []string
	cause := ""
	for _, source := range s.Sources {
		if source.Error != "" {
			failing, cause = append(failing, source.Name), source.Error
		}
		for _, ref := range source.Refs {
			if ref.Rewound != "" {
				rewound = append(rewound, source.Name+" "+ref.Ref)
			}
		}
	}
	switch {
	case len(failing) > 0:
		r := warn("plural source get "+failing[0], "the hub cannot fetch %s: what was fetched before is served", strings.Join(failing, ", "))
		r.Cause = cause
		return r
	case len(rewound) > 0:
		return warn("find out who force-pushed, or put a backup in its place", "left its history: %s", strings.Join(rewound, ", "))
	}
	return ok("the hub fetches all of them")
}

// notices are what the hub has noticed besides.
func (x *exam) notices(ctx context.Context) Result {
	s, why := x.told(ctx)
	switch {
	case s == nil:
		return why
	case len(s.Notices) == 1:
		return warn(s.Notices[0].Fix, "%s", s.Notices[0].Message)
	case len(s.Notices) > 1:
		return warn(s.Notices[0].Fix, "%s; and %d more: plural status", s.Notices[0].Message, len(s.Notices)-1)
	}
	return ok("the hub noticed nothing else lately")
}

// agents goes by what the hub heard of them.
func (x *exam) agents(ctx context.Context) Result {
	s, why := x.told(ctx)
	if s == nil {
		return why
	}
	list, err := x.Hub.Clusters(ctx)
	if err != nil {
		return because(err, "the hub does not list the clusters", "plural status")
	}
	var silent, unregistered, newer, older, other []string
	for i := range list.Items {
		c := &list.Items[i]
		switch {
		case c.Phase == v1.Unregistered:
			unregistered = append(unregistered, c.Name)
		case c.Phase == v1.Stale, c.LastReport == nil:
			silent = append(silent, c.Name+" ("+since(x.Now(), c.LastReport)+")")
		case c.AgentVersion != "" && c.AgentVersion != s.Version:
			named := c.Name + " (" + c.AgentVersion + ")"
			switch ahead, _ := minorsAhead(c.AgentVersion, s.Version); {
			case ahead > 0:
				newer = append(newer, named)
			case ahead < -agentSkew:
				older = append(older, named)
			default:
				other = append(other, named)
			}
		}
	}
	switch {
	case len(silent) > 0:
		fix := "see that their agents run and reach the hub: kubectl -n plural-system logs deployment/plural-agent"
		if x.Local {
			fix = "see whether their agents run: plural local list; plural local start agent-CLUSTER"
		}
		return fail(fix, "agents do not report: %s", some(silent))
	case len(unregistered) > 0:
		return warn("plural cluster register "+unregistered[0], "clusters without an agent: %s", some(unregistered))
	case len(newer) > 0:
		return warn("plural package upgrade hub: it goes before its agents", "agents newer than the hub, which is %s: %s", s.Version, some(newer))
	case len(older) > 0:
		return warn("plural package upgrade agent", "agents that a hub of %s does not serve any more, more than %d minor versions older: %s",
			s.Version, agentSkew, some(older))
	case len(other) > 0:
		return warn("plural package upgrade agent", "agents of another version than the hub's %s: %s", s.Version, some(other))
	case len(list.Items) == 0:
		return skipped("the fleet has no clusters")
	}
	return ok("%s", plural(len(list.Items), "agent reports", "agents report"))
}

func since(now time.Time, at *time.Time) string {
	if at == nil {
		return "never"
	}
	return now.Sub(*at).Round(time.Second).String() + " ago"
}
