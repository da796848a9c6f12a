package act

import (
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// is says whether a subject is of one of these kinds.
func is(kinds ...pane.Kind) func(pane.Subject) bool {
	return func(s pane.Subject) bool { return slices.Contains(kinds, s.Kind) }
}

// only says whether there are subjects, all of one kind.
func only(kind pane.Kind) func([]pane.Subject) bool {
	return func(all []pane.Subject) bool { return every(all, is(kind)) }
}

// isDeployment says whether a subject is a service on a cluster.
func isDeployment(s pane.Subject) bool {
	return s.Kind == pane.KindDeployment && s.Cluster != "" && s.Service != ""
}

// isWritten says whether a subject is one document of the installation repo, or one package in it.
func isWritten(s pane.Subject) bool {
	return is(pane.KindService, pane.KindCluster, pane.KindSource, pane.KindPackage)(s)
}

// waits says whether a subject may have something that a person may agree to.
func waits(s pane.Subject) bool {
	return is(pane.KindService, pane.KindDeployment, pane.KindCluster)(s) && (s.Token != "" || s.Phase == v1.Held)
}

// every says whether there are subjects, and all fit.
func every(all []pane.Subject, fits func(pane.Subject) bool) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(s pane.Subject) bool { return !fits(s) })
}

func filtered(all []pane.Subject, fits func(pane.Subject) bool) []pane.Subject {
	var out []pane.Subject
	for _, s := range all {
		if fits(s) {
			out = append(out, s)
		}
	}
	return out
}

// going are those that are not suspended.
func going(all []pane.Subject) []pane.Subject {
	return filtered(all, func(s pane.Subject) bool { return !s.Suspended })
}

func kinds(all []pane.Subject) []pane.Kind {
	var out []pane.Kind
	for _, s := range all {
		if !slices.Contains(out, s.Kind) {
			out = append(out, s.Kind)
		}
	}
	return out
}

// misnamed is a name among those of the subjects that no fleet has, and a command might read as something else: as a flag, or as
// several names. Whoever answers for the hub could send it.
func misnamed(all []pane.Subject) (name string, found bool) {
	for i := range all {
		said := []string{all[i].Cluster, all[i].Service}
		if isWritten(all[i]) || all[i].Kind == pane.KindCommit {
			said = append(said, all[i].Name)
		}
		if at := slices.IndexFunc(said, func(name string) bool { return !isName(name) }); at >= 0 {
			return said[at], true
		}
	}
	return "", false
}

// isName says whether a text is a name that commands may be given, or none at all. "." is the source of the fleet itself.
func isName(text string) bool {
	letter := func(c rune) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' }
	inside := func(c rune) bool { return letter(c) || strings.ContainsRune("._-", c) }
	return text == "" || text == "." || letter(rune(text[0])) && strings.TrimFunc(text, inside) == ""
}

// names are the subjects' own, in their order.
func names(all []pane.Subject) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.Name)
	}
	return out
}

// services are the names of the services that subjects are of, each once, in their order.
func services(all []pane.Subject) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range all {
		if name := file(s).Name; !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// file is what of the installation repo a subject is written in: a deployment is written in its service.
func file(s pane.Subject) pane.Subject {
	if s.Kind == pane.KindDeployment {
		return pane.Subject{Kind: pane.KindService, Name: s.Service}
	}
	return s
}

// cluster is the one that a subject is, or is on.
func cluster(s pane.Subject) string {
	if s.Kind == pane.KindCluster {
		return s.Name
	}
	return s.Cluster
}

// perService are commands about services, one each, which name the clusters where the subjects do.
func perService(all []pane.Subject, command []string, flags ...string) [][]string {
	on := map[string][]string{}
	for _, s := range all {
		if s.Kind == pane.KindDeployment {
			on[s.Service] = append(on[s.Service], "--cluster", s.Cluster)
		}
	}
	var out [][]string
	for _, name := range services(all) {
		out = append(out, slices.Concat(command, []string{name}, on[name], flags))
	}
	return out
}

// perName are commands about one name each, which do not wait.
func perName(names []string, command ...string) [][]string {
	var out [][]string
	for _, name := range names {
		out = append(out, slices.Concat(command, []string{name, unwatched}))
	}
	return out
}

// about names subjects as people do.
func about(all []pane.Subject) Targets {
	t := Targets{Noun: "things"}
	if k := kinds(all); len(k) == 1 {
		t.Noun = string(k[0]) + "s"
	}
	for i := range all {
		t.Names = append(t.Names, name(&all[i]))
	}
	return t
}

func name(s *pane.Subject) string {
	switch s.Kind {
	case pane.KindDeployment:
		return s.Cluster + "/" + s.Service
	case pane.KindObject:
		if s.Object != nil {
			return s.Object.Kind + "/" + s.Object.Name
		}
	case pane.KindFleet, pane.KindCluster, pane.KindService, pane.KindSource, pane.KindPackage, pane.KindEvent, pane.KindCommit,
		pane.KindCommand:
	}
	return s.Name
}

// asked are the arguments of the command that shows a subject; nil: there is none.
func asked(s *pane.Subject) []string {
	switch s.Kind {
	case pane.KindFleet:
		return []string{"status"}
	case pane.KindCluster, pane.KindService, pane.KindSource:
		return []string{string(s.Kind), "get", s.Name}
	case pane.KindDeployment:
		return []string{"service", "get", s.Service}
	case pane.KindPackage:
		return []string{"package", "outdated"}
	case pane.KindCommit:
		return []string{"diff", s.Name}
	case pane.KindObject:
		if s.Object == nil {
			return nil
		}
		kind := s.Object.Resource
		if s.Object.Group != "" {
			kind = strings.Join([]string{kind, s.Object.Group}, ".")
		}
		out := []string{"kubectl", s.Cluster, "get", kind, s.Object.Name}
		if s.Object.Namespace != "" {
			out = append(out, "-n", s.Object.Namespace)
		}
		return out
	case pane.KindEvent, pane.KindCommand:
	}
	return nil
}
