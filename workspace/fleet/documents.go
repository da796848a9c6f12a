package fleet

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// The kinds, as written in a document's kind field.
const (
	kindWorkspace = "Workspace"
	kindCluster   = "Cluster"
	kindSource    = "Source"
	kindService   = "Service"
	kindInstalled = "Installation"
	kindUser      = "User"
	kindRole      = "Role"
	kindBinding   = "RoleBinding"
	kindProvider  = "Provider"
	kindFederated = "Federation"
	kindApp       = "Application"
	kindSink      = "Sink"
	kindRoute     = "Route"
)

// document is one document on its way into a kind.
type document struct{ *yamlstrict.Document }

// folder holds documents of its kinds only, so that who may change a folder is who may change those kinds.
type folder struct {
	name  string
	kinds []string
}

func folders() []folder {
	return []folder{
		{"clusters", []string{kindCluster}},
		{"sources", []string{kindSource}},
		{"services", []string{kindService}},
		{"access", []string{kindUser, kindRole, kindBinding, kindProvider, kindFederated, kindApp}},
		{"notify", []string{kindSink, kindRoute}},
	}
}

// header checks apiVersion and kind against what the folder holds, and says of which of its kinds the document is. It is
// false when that is another kind altogether, so that complaints about its fields would only mislead.
func (d *document) header(f folder) (kind string, ok bool) {
	if d.Root.Kind != yaml.MappingNode {
		d.WrongType(d.Root, "", "fields", "begin with apiVersion: "+APIVersion)
		return "", false
	}
	if !d.versionIsOurs() {
		return "", false
	}
	return d.kindBelongs(f)
}

func (d *document) versionIsOurs() bool {
	version := d.Scalar("apiVersion")
	if version == nil || version.Value == APIVersion {
		return true
	}
	d.Faults.Add(d.At(version), "write "+APIVersion, "unknown apiVersion %s", yamlstrict.Quote(version.Value))
	_, slip := yamlstrict.Nearest(version.Value, []string{APIVersion})
	return slip
}

func (d *document) kindBelongs(f folder) (string, bool) {
	kind := d.Scalar("kind")
	switch {
	case kind == nil && len(f.kinds) > 1:
		d.Fault("", "add kind: "+strings.Join(f.kinds, " or kind: "), "missing field %s", yamlstrict.Quote("kind"))
		return "", false
	case kind == nil:
		return f.kinds[0], true // missing, and reported as such
	case slices.Contains(f.kinds, kind.Value):
		return kind.Value, true
	}
	homes := map[string]string{kindWorkspace: workspaceFile, kindInstalled: packagesFolder + "/NAME/" + installationFile}
	for _, other := range folders() {
		for _, k := range other.kinds {
			homes[k] = other.name + "/"
		}
	}
	if home, ours := homes[kind.Value]; ours {
		d.Faults.Add(d.At(kind), "move it to "+home, "%s does not belong here", kind.Value)
		return "", false
	}
	d.Faults.Add(d.At(kind), yamlstrict.DidYouMean(kind.Value, f.kinds, "kinds"), "unknown kind %s", yamlstrict.Quote(kind.Value))
	return yamlstrict.Nearest(kind.Value, f.kinds)
}

// add decodes and checks a document, and keeps it. One with mistakes is kept too where it has a name, so that
// references to it are not reported as well.
func (l *loader) add(d *document, kind string) {
	switch kind {
	case kindWorkspace:
		l.addWorkspace(d)
	case kindCluster:
		l.addCluster(d)
	case kindSource:
		s := added(&l.fleet.Sources, Source{Position: d.Position(), Fields: d.Fields})
		d.Decode(s)
		d.checkSource(s)
	case kindService:
		s := added(&l.fleet.Services, Service{Position: d.Position(), Fields: d.Fields})
		d.Decode(s)
		d.checkService(s)
	case kindInstalled:
		l.addInstallation(d)
	default:
		l.addAccess(d, kind)
	}
}

// added puts one at the end of a list, and gives its place there.
func added[T any](list *[]T, one T) *T {
	*list = append(*list, one)
	return &(*list)[len(*list)-1]
}

// addAccess adds what is of people: who may do what, and what they are told.
func (l *loader) addAccess(d *document, kind string) {
	switch f := &l.fleet; kind {
	case kindUser:
		u := added(&f.Users, User{Position: d.Position(), Fields: d.Fields})
		d.Decode(u)
		d.checkUser(u)
	case kindRole:
		r := added(&f.Roles, Role{Position: d.Position(), Fields: d.Fields})
		d.Decode(r)
		d.checkRole(r)
	case kindBinding:
		b := added(&f.RoleBindings, RoleBinding{Position: d.Position(), Fields: d.Fields})
		d.Decode(b)
		d.checkRoleBinding(b)
	case kindProvider:
		p := added(&f.Providers, Provider{Position: d.Position(), Fields: d.Fields})
		d.Decode(p)
		d.checkProvider(p)
	case kindFederated:
		m := added(&f.Federations, Federation{Position: d.Position(), Fields: d.Fields})
		d.Decode(m)
		d.checkFederation(m)
	case kindApp:
		a := added(&f.Applications, Application{Position: d.Position(), Fields: d.Fields})
		d.Decode(a)
		d.checkApplication(a)
	case kindSink:
		s := added(&f.Sinks, Sink{Position: d.Position(), Fields: d.Fields})
		d.Decode(s)
		d.checkSink(s)
	case kindRoute:
		r := added(&f.Routes, Route{Position: d.Position(), Fields: d.Fields})
		d.Decode(r)
		d.checkRoute(r)
	}
}

func (l *loader) addWorkspace(d *document) {
	w := Workspace{Position: d.Position(), Fields: d.Fields}
	d.Decode(&w)
	d.checkWorkspace(&w)
	if first := l.fleet.Workspace; first.Position.Line > 0 {
		d.Fault("", "keep one of them", "a second Workspace; the first is at %s", first.Position)
		return
	}
	l.fleet.Workspace = w
}

func (l *loader) addCluster(d *document) {
	c := Cluster{Position: d.Position()}
	d.Decode(&c)
	d.checkCluster(&c)
	l.fleet.Clusters = append(l.fleet.Clusters, c)
	if auth := c.Spec.Agent.Auth; auth != "" {
		l.agentKeys = append(l.agentKeys, agentKey{auth, c.Position, d.Fields["spec.agent.auth"]})
	}
}

// checkAgentKeys refuses a key that another cluster has: its agent could speak for both.
func (l *loader) checkAgentKeys() {
	owners := make(map[string]Position, len(l.agentKeys))
	for _, key := range l.agentKeys {
		if first, taken := owners[key.auth]; taken {
			l.faults.Add(key.place, "register the cluster again", "the agent key is already that of the cluster at %s", first)
			continue
		}
		owners[key.auth] = key.cluster
	}
}
