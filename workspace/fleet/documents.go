package fleet

import "go.yaml.in/yaml/v3"

// The kinds, as written in a document's kind field.
const (
	kindWorkspace = "Workspace"
	kindCluster   = "Cluster"
	kindSource    = "Source"
	kindService   = "Service"
)

// folder holds documents of one kind only, so that who may change a folder is who may change that kind.
type folder struct{ name, kind string }

func folders() []folder {
	return []folder{{"clusters", kindCluster}, {"sources", kindSource}, {"services", kindService}}
}

// header checks apiVersion and kind against what the folder holds. It is false when the document is of another kind
// altogether, so that complaints about its fields would only mislead.
func (d *document) header(f folder) bool {
	if d.root.Kind != yaml.MappingNode {
		d.wrongType(d.root, "", "fields", "begin with apiVersion: "+APIVersion)
		return false
	}
	return d.versionIsOurs() && d.kindBelongs(f)
}

func (d *document) versionIsOurs() bool {
	version := lookup(d.root, "apiVersion")
	if version == nil || version.Value == APIVersion {
		return true
	}
	d.faults.add(d.at(version), "write "+APIVersion, "unknown apiVersion %s", quote(version.Value))
	_, slip := nearest(version.Value, []string{APIVersion})
	return slip
}

func (d *document) kindBelongs(f folder) bool {
	kind := lookup(d.root, "kind")
	if kind == nil || kind.Value == f.kind {
		return true
	}
	homes := map[string]string{kindWorkspace: workspaceFile}
	for _, other := range folders() {
		homes[other.kind] = other.name + "/"
	}
	if home, ours := homes[kind.Value]; ours {
		d.faults.add(d.at(kind), "move it to "+home, "%s does not belong here", kind.Value)
		return false
	}
	d.faults.add(d.at(kind), didYouMean(kind.Value, []string{f.kind}, "kinds"), "unknown kind %s", quote(kind.Value))
	_, slip := nearest(kind.Value, []string{f.kind})
	return slip
}

// lookup is the scalar under a key of a mapping, or nil.
func lookup(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key, val := target(n.Content[i]), target(n.Content[i+1]); key.Value == name && val.Kind == yaml.ScalarNode && !isNull(val) {
			return val
		}
	}
	return nil
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
		s := Source{Position: d.position(), Fields: d.fields}
		d.decode(&s)
		d.checkSource(&s)
		l.fleet.Sources = append(l.fleet.Sources, s)
	case kindService:
		s := Service{Position: d.position(), Fields: d.fields}
		d.decode(&s)
		d.checkService(&s)
		l.fleet.Services = append(l.fleet.Services, s)
	}
}

func (l *loader) addWorkspace(d *document) {
	w := Workspace{Position: d.position()}
	d.decode(&w)
	d.checkWorkspace(&w)
	if first := l.fleet.Workspace; first.Position.Line > 0 {
		d.fault("", "keep one of them", "a second Workspace; the first is at %s", first.Position)
		return
	}
	l.fleet.Workspace = w
}

// addCluster refuses a key that another cluster has: its agent could speak for both.
func (l *loader) addCluster(d *document) {
	c := Cluster{Position: d.position()}
	d.decode(&c)
	d.checkCluster(&c)
	l.fleet.Clusters = append(l.fleet.Clusters, c)
	auth := c.Spec.Agent.Auth
	if auth == "" {
		return
	}
	if first, taken := l.agentKeys[auth]; taken {
		d.fault("spec.agent.auth", "register the cluster again", "the agent key is already that of the cluster at %s", first)
		return
	}
	l.agentKeys[auth] = c.Position
}
