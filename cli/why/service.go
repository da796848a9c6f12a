package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// serviceAnswer is why a service is as it is.
type serviceAnswer struct {
	Service string `json:"service"`
	// Where is the place of its file.
	Where string `json:"where"`
	origin
	// Source is the repository that its files come from; nil where that is the installation repo.
	Source *sourceAnswer `json:"source,omitempty"`
	// Hub is what kept the hub from being asked; empty when it was.
	Hub string `json:"hubError,omitempty"`
	// Served is the commit that the hub serves, Refused why it does not serve a newer one.
	Served  *v1.Commit   `json:"served,omitempty"`
	Refused []v1.Problem `json:"refused,omitempty"`
	// Problems keep it from being resolved, as the work tree is.
	Problems []v1.Problem `json:"problems,omitempty"`
	// Clusters are those that it is meant for.
	Clusters []clusterAnswer `json:"clusters"`
	// Next is what would help.
	Next []string `json:"next,omitempty"`
}

// sourceAnswer is the repository that a service comes from.
type sourceAnswer struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Ref  string `json:"ref,omitempty"`
	// Commit is what the hub serves of Ref; empty when it was not asked, or does not know.
	Commit string `json:"commit,omitempty"`
	// pin holds the service at one commit; empty where it is.
	pin string
}

// clusterAnswer is why a service is as it is on one cluster.
type clusterAnswer struct {
	Cluster string   `json:"cluster"`
	Phase   v1.Phase `json:"phase,omitempty"`
	// Reasons are sentences.
	Reasons []string `json:"reasons,omitempty"`
	// Chain leads from what the service waits for to the service where it begins.
	Chain []link `json:"chain,omitempty"`
	// Written is where the first object that is not well is written, or where it cannot be rendered.
	Written string `json:"written,omitempty"`
	// Parameter is where the service sets the parameter that its template has there.
	Parameter string `json:"parameter,omitempty"`
	Next      string `json:"next,omitempty"`
	// object is the first one that is not well, as plural why takes it; warned says that its cluster warns of it.
	object string
	warned bool
	// suspended says that it is as it is since its agent leaves it alone, and not by what its files say.
	suspended bool
	// unreached says that its cluster's API server does not answer, which nothing that is written can help.
	unreached bool
	// undo is the command that takes back what broke it.
	undo string
}

// broken says that the service is not well by its own fault. Of one on its way that is so where its cluster warns: an image that
// cannot be pulled is tried for ten minutes before its Deployment has failed.
func (c *clusterAnswer) broken() bool {
	fault := slices.Contains([]v1.Phase{v1.Failed, v1.Degraded, v1.Held}, c.Phase) || c.Phase == v1.Progressing && c.warned
	return fault && !c.suspended && !c.unreached && len(c.Chain) == 0
}

// link is a service that others wait for.
type link struct {
	Service string   `json:"service"`
	Phase   v1.Phase `json:"phase"`
	Reason  string   `json:"reason,omitempty"`
}

func (a *asked) service(ctx context.Context, name string) (*serviceAnswer, error) {
	s, _ := a.state.Fleet.Service(name)
	deployments := a.deployments[name]
	answer := &serviceAnswer{Service: name, Where: s.Position.String(), Clusters: []clusterAnswer{}}
	var err error
	if answer.origin, err = a.origin(ctx, filesOf(s, deployments)); err != nil {
		return nil, err
	}
	if source, elsewhere := a.state.Fleet.Source(s.Spec.Source.Name); elsewhere {
		answer.Source = &sourceAnswer{
			Name: source.Metadata.Name, URL: source.URL(), Ref: source.Ref(s), pin: cmdutil.Pin(a.state.Fleet, name),
		}
	}
	for i := range deployments {
		if hold := deployments[i].Hold; hold != nil && hold.Source == "" {
			p := v1.Problem{File: hold.File, Line: hold.Line, Message: hold.Message, Fix: hold.Fix}
			if !slices.ContainsFunc(answer.Problems, p.Equal) {
				answer.Problems = append(answer.Problems, p)
			}
		}
	}
	if err := a.askHub(ctx, answer, deployments); err != nil {
		return nil, err
	}
	if err := a.locate(ctx, answer); err != nil {
		return nil, err
	}
	answer.advise(len(deployments))
	return answer, nil
}

// filesOf are what a service is made of in the installation repo.
func filesOf(s *fleet.Service, deployments []resolve.Deployment) []string {
	files := []string{s.Position.File}
	for i := range deployments {
		d := &deployments[i]
		if d.OwnRepository && d.Hold == nil {
			files = append(append(files, d.Inputs...), d.Links...)
		}
		files = append(files, d.SecretsInputs...)
		for _, m := range d.Mounts {
			if m.OwnRepository {
				files = append(append(files, m.Inputs...), m.Links...)
			}
		}
	}
	if len(files) == 1 && s.Spec.Source.Name == "" && s.Spec.Source.Path != "" {
		files = append(files, s.Spec.Source.Path)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// askHub fills in how the service is. A hub that cannot be asked is no error.
func (a *asked) askHub(ctx context.Context, answer *serviceAnswer, deployments []resolve.Deployment) error {
	hub := &witness{fleet: a.state.Fleet, services: map[string]map[string]*v1.Deployment{}}
	var err error
	if hub.client, err = a.f.HubClient(); err == nil {
		err = a.hubSays(ctx, hub, answer, deployments)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer.Hub = oneLine(cmdutil.Explain(err))
	answer.Clusters = answer.Clusters[:0]
	for i := range deployments {
		c := clusterAnswer{Cluster: deployments[i].Cluster}
		for _, dep := range deployments[i].DependsOn {
			c.Reasons = append(c.Reasons, "it waits for service "+dep.Service)
		}
		answer.Clusters = append(answer.Clusters, c)
	}
	return nil
}

// oneLine is an error without a cause that repeats it.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (a *asked) hubSays(ctx context.Context, hub *witness, answer *serviceAnswer, deployments []resolve.Deployment) error {
	status, err := hub.client.Status(ctx)
	if err != nil {
		return err
	}
	answer.Served, answer.Refused = &status.Commit, status.Refused
	answer.Source.serve(status)
	for i := range deployments {
		c, err := hub.cluster(ctx, &deployments[i])
		if err != nil {
			return err
		}
		if c.Phase == "" && len(status.Refused) > 0 { // it may be committed, and no push makes it known
			c.Next = ""
		}
		a.unfetched(status, answer.Service, &c)
		answer.Clusters = append(answer.Clusters, c)
	}
	return nil
}

// serve fills in what the hub serves of it.
func (s *sourceAnswer) serve(status *v1.Status) {
	if s == nil {
		return
	}
	for i := range status.Sources {
		if status.Sources[i].Name != s.Name {
			continue
		}
		for _, ref := range status.Sources[i].Refs {
			if ref.Ref == s.Ref {
				s.Commit = ref.Commit
			}
		}
	}
}

// unfetched adds which source the hub cannot fetch, with its address, to why it has nothing to offer for a service.
func (a *asked) unfetched(status *v1.Status, service string, c *clusterAnswer) {
	s, _ := a.state.Fleet.Service(service)
	for _, used := range append([]fleet.SourceRef{s.Spec.Source}, mounted(s)...) {
		source, known := a.state.Fleet.Source(used.Name)
		if !known || c.Phase != v1.Held {
			continue
		}
		if fault := cmdutil.Unfetched(status, used.Name); fault != "" {
			at := source.Position.String()
			c.Reasons = append(c.Reasons, fmt.Sprintf("the hub cannot fetch source %s (%s, written in %s): %s", used.Name, source.URL(), at, fault))
			c.Next = "mend " + at + ", commit and push; or, where that is right: plural source sync " + used.Name
		}
	}
}

func mounted(s *fleet.Service) []fleet.SourceRef {
	var list []fleet.SourceRef
	for i := range s.Spec.Mounts {
		list = append(list, s.Spec.Mounts[i].Source)
	}
	return list
}

// witness asks the hub about services, each once.
type witness struct {
	client   *client.Client
	fleet    *fleet.Fleet
	services map[string]map[string]*v1.Deployment
}

// on is a service on a cluster, nil where the hub knows nothing of it.
func (w *witness) on(ctx context.Context, service, cluster string) (*v1.Deployment, error) {
	known, ok := w.services[service]
	if !ok {
		known = map[string]*v1.Deployment{}
		found, err := w.client.Service(ctx, service)
		var says *client.Error
		if err != nil && (!errors.As(err, &says) || says.Status != 404) {
			return nil, err
		}
		if found != nil {
			for i := range found.Deployments {
				known[found.Deployments[i].Cluster] = &found.Deployments[i]
			}
		}
		w.services[service] = known
	}
	return known[cluster], nil
}

func (w *witness) cluster(ctx context.Context, wanted *resolve.Deployment) (clusterAnswer, error) {
	service, cluster := wanted.Service, wanted.Cluster
	out := clusterAnswer{Cluster: cluster}
	d, err := w.on(ctx, service, cluster)
	if err != nil {
		return out, err
	}
	if d == nil {
		out.Reasons, out.Next = []string{"the hub does not know of it there"}, "commit and push it"
		return out, nil
	}
	out.Phase, out.Reasons, out.unreached = d.Phase, reasons(d), d.Unreached
	out.suspended = d.Suspended && d.Phase == v1.Held && wanted.Hold == nil
	elsewhere := wanted.Hold != nil && wanted.Hold.Source != ""
	if len(d.Problems) > 0 && d.Problems[0].Object != "" && !elsewhere {
		out.object, out.warned = objectOf(d.Problems[0]), d.Problems[0].Reason == v1.ReasonWarning
	}
	if d.Phase != v1.Healthy && !out.suspended {
		if out.Chain, err = w.chain(ctx, service, cluster, map[string]bool{service: true}); err != nil {
			return out, err
		}
	}
	if out.Next = next(d, out.Chain, elsewhere, w.client.Address()); out.suspended {
		out.Next = "plural service resume " + service
	}
	return out, nil
}

// locate finds where the first object that is not well is written, once for all clusters that have the same trouble.
func (a *asked) locate(ctx context.Context, answer *serviceAnswer) error {
	for _, group := range alike(answer.Clusters) {
		written, parameter := cmdutil.Placed(group[0].Reasons...), ""
		if at := group[0].object; written == "" && at != "" && group[0].broken() {
			q, err := parseQuery(at, "")
			if err != nil {
				continue // it has a name that nobody could ask for
			}
			s := &search{asked: a, query: q, answer: &objectAnswer{}}
			if err := s.renderAll(ctx, []string{answer.Service}); err != nil {
				return err
			}
			if len(s.answer.Matches) > 0 {
				m := &s.answer.Matches[0]
				service, _ := a.state.Fleet.Service(answer.Service)
				written, parameter = inspect.Where(service, m.deployment, render.Origin{File: m.File, Line: m.Line},
					fieldIn(group[0].Reasons, m.made.Object), m.made.Object)
			}
		}
		undo := ""
		if answer.Commit != nil && group[0].broken() && !answer.brought(a.repo) {
			undo = a.f.Undo(ctx, cmp.Or(parameter, written), answer.Commit.ID)
		}
		for i := range answer.Clusters {
			if slices.ContainsFunc(group, func(c clusterAnswer) bool { return c.Cluster == answer.Clusters[i].Cluster }) {
				at := &answer.Clusters[i]
				at.Written, at.Parameter, at.undo = written, parameter, undo
			}
		}
	}
	return nil
}

// brought says whether the last change of a service from elsewhere is the commit that brought it: to take that back takes it away.
func (s *serviceAnswer) brought(repo *workspace.Repo) bool {
	file, _, _ := strings.Cut(s.Where, ":")
	return s.Source != nil && offline.Makes(repo, s.Commit.ID, file)
}

// fieldNamed is a field as API servers name it: spec.replicas, .spec.containers[name="web"].image, spec.containers[0].image.
var fieldNamed = regexp.MustCompile(`(?:^|[ :])\.?((?:data|metadata|spec)(?:\.[A-Za-z][\w-]*|\[[^\]]*\])+):`)

// containerNamed is a container as agents name one that does not get on.
var containerNamed = regexp.MustCompile(`(?:^|[ ;:])container ([a-z0-9-]+): `)

// imageOf is the field of the image of a container, in an object that has Pods, or is one; nothing where there is none.
func imageOf(container string, object map[string]any) []string {
	for _, pod := range [][]string{{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"spec"}} {
		for _, kind := range []string{"containers", "initContainers"} {
			field, _, _ := unstructured.NestedFieldNoCopy(object, slices.Concat(pod, []string{kind})...)
			list, _ := field.([]any)
			n := slices.IndexFunc(list, func(one any) bool { c, _ := one.(map[string]any); return c["name"] == container })
			if n >= 0 {
				return slices.Concat(pod, []string{kind, strconv.Itoa(n), "image"})
			}
		}
	}
	return nil
}

// fieldIn is the field of an object that the first reason names, as far as the object has it; nothing where it names none. Of a
// container that does not get on, which is said of no field, that is its image.
func fieldIn(reasons []string, object any) []string {
	reason := slices.Concat(reasons, []string{""})[0]
	found := fieldNamed.FindStringSubmatch(reason)
	if found == nil {
		found = containerNamed.FindStringSubmatch(reason)
		of, _ := object.(map[string]any)
		if found == nil {
			return nil
		}
		return imageOf(found[1], of)
	}
	var field []string
	for _, step := range strings.FieldsFunc(found[1], func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if list, is := object.([]any); is {
			n, err := strconv.Atoi(step)
			key, value, named := strings.Cut(step, "=")
			if named {
				n = slices.IndexFunc(list, func(item any) bool {
					of, _ := item.(map[string]any)
					return fmt.Sprint(of[key]) == strings.Trim(value, `"`)
				})
			}
			if !named && err != nil || n < 0 || n >= len(list) {
				return field
			}
			step, object = strconv.Itoa(n), list[n]
		} else {
			of, _ := object.(map[string]any)
			object = of[step]
		}
		field = append(field, step)
	}
	return field
}

// reasons are what a deployment's report says, each thing once: its message is often that of its first problem.
func reasons(d *v1.Deployment) []string {
	var list []string
	repeated := d.Held != nil && strings.Contains(d.Message, d.Held.Message) ||
		slices.ContainsFunc(d.Problems, func(p v1.Problem) bool { return p.Message != "" && strings.HasSuffix(d.Message, p.Message) })
	if d.Message != "" && !repeated {
		list = append(list, d.Message)
	}
	if d.QuarantinedKey != "" {
		list = append(list, "what it should be failed a test, and is not applied again: key "+d.QuarantinedKey)
	}
	if d.Held != nil {
		text := d.Held.Message
		if count := strconv.Itoa(d.Held.Count) + " "; !strings.HasPrefix(text, count) {
			text = count + "deletions wait: " + text
		}
		list = append(list, text)
	}
	for _, p := range d.Problems {
		list = append(list, cmdutil.HubProblem(p).Message)
	}
	for _, t := range d.Tests {
		if t.Outcome == v1.TestFailed {
			list = append(list, fmt.Sprintf("test %s failed: %s", t.Name, t.Message))
		}
	}
	return append(list, d.Notes...)
}

// chain follows what a service waits for on a cluster, to where it begins. It goes along the first that is not there yet.
func (w *witness) chain(ctx context.Context, service, cluster string, seen map[string]bool) ([]link, error) {
	s, ok := w.fleet.Service(service)
	if !ok {
		return nil, nil
	}
	for _, dep := range s.Spec.DependsOn {
		d, err := w.on(ctx, dep.Service, cluster)
		if err != nil {
			return nil, err
		}
		if seen[dep.Service] || d != nil && d.Phase == v1.Healthy {
			continue
		}
		seen[dep.Service] = true
		here := link{Service: dep.Service, Reason: "the hub does not know of it there"}
		if d != nil {
			here.Phase, here.Reason = d.Phase, strings.Join(reasons(d), "; ")
		}
		rest, err := w.chain(ctx, dep.Service, cluster, seen)
		return append([]link{here}, rest...), err
	}
	return nil, nil
}

// next is what would help a deployment, as the hub at an address says. Of one whose files are elsewhere, in another repository,
// nothing is rendered here.
func next(d *v1.Deployment, chain []link, elsewhere bool, hub string) string {
	start := cmdutil.Start(d, hub)
	switch {
	case start != "":
		return start
	case d.Unreached:
		return "plural cluster get " + d.Cluster
	case len(chain) > 0:
		return "plural why " + chain[len(chain)-1].Service + " --cluster " + d.Cluster
	case d.Held != nil:
		return "plural service ack " + d.Service
	case d.QuarantinedKey != "":
		return "mend what the test found, and commit"
	case d.Phase == v1.Stale || d.Phase == v1.Unregistered || d.Phase == v1.Pending:
		return "plural cluster get " + d.Cluster
	case len(d.Problems) > 0 && elsewhere:
		return "plural service tree " + d.Service + " --cluster " + d.Cluster
	case len(d.Problems) > 0 && d.Problems[0].Object != "" && slices.Contains([]string{"", v1.ReasonWarning}, d.Problems[0].Reason):
		// it is there, and not well
		return "plural why \"" + objectOf(d.Problems[0]) + "\" --cluster " + d.Cluster + " --live"
	}
	return ""
}

// objectOf is the object of a problem, as `plural why` takes it.
func objectOf(p v1.Problem) string {
	kind, name, _ := strings.Cut(p.Object, " ")
	if p.Group != "" {
		kind += "." + p.Group
	}
	return kind + " " + name
}

// advise gathers what would help.
func (s *serviceAnswer) advise(wanted int) {
	add := func(text string) {
		if text != "" && !slices.Contains(s.Next, text) {
			s.Next = append(s.Next, text)
		}
	}
	switch {
	case len(s.Problems) > 0:
		add("plural validate")
	case len(s.Refused) > 0:
		add(cmdutil.Mend(s.Refused[0], cmp.Or(s.Served, &v1.Commit{}).ID))
	}
	if len(s.Uncommitted) > 0 {
		add("plural diff svc/" + s.Service + ", then commit and push")
	}
	if wanted == 0 {
		add("it is meant for no cluster: see spec.clusters in " + s.Where)
	}
	for _, group := range alike(s.Clusters) { // what is said of one of them helps the others
		if len(s.Next) < maxNext {
			add(s.mend(&group[0]))
			add(group[0].Next)
		}
	}
}

// mend is what to do in the repository about a service that is not well by its own fault.
func (s *serviceAnswer) mend(c *clusterAnswer) string {
	var ways []string
	if !c.broken() {
		return ""
	}
	file, _, _ := strings.Cut(c.Written, ":")
	switch {
	case s.Source != nil && s.Source.pin != "" && !slices.Contains(s.Files, file): // what breaks it may be no change of this repository
		ways = append(ways, strings.TrimSpace("mend "+c.Written)+" in source "+s.Source.Name+", "+s.Source.URL, s.Source.pin)
	case c.Parameter != "":
		ways = append(ways, "mend "+c.Parameter+" or "+c.Written+", commit and push")
	case c.Written != "":
		ways = append(ways, "mend "+c.Written+", commit and push")
	}
	if c.undo != "" {
		ways = append(ways, "take its last change back: "+c.undo)
	}
	return strings.Join(ways, "; or ")
}

// maxNext bounds the advice.
const maxNext = 3
