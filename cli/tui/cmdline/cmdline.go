// Package cmdline owns the console's command line.
//
// It refuses to know what any pane shows.
//
// A line begins with the name or an alias of a pane. Behind that of a list comes a filter; behind that of a pane about one
// subject what it is to be about: a service, a cluster, or CLUSTER/SERVICE. What is typed is completed from what is known of the
// fleet, and read into a message for the console.
package cmdline

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/agext/levenshtein"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/guide"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// maxWords bounds how many words are offered at once.
const maxWords = 20

// Error is a line that says nothing the console can do.
type Error struct {
	// Message says what is wrong; Fix is what was perhaps meant.
	Message, Fix string
}

// Error is both.
func (e *Error) Error() string {
	if e.Fix == "" {
		return e.Message
	}
	return e.Message + "; " + e.Fix
}

// command is what a line can begin with.
type command struct {
	// pane is what it opens.
	pane    string
	aliases []string
	// about says that it is about one subject; else it is a list, and has a filter.
	about bool
	// kind says that a kind of Kubernetes' comes behind it.
	kind bool
	// alone takes nothing behind it; does is then what it asks for, unless it opens a pane.
	alone bool
	does  func() tea.Msg
}

func commands() []command {
	return []command{
		{pane: "fleet", aliases: []string{"fl", "deployments"}},
		{pane: "clusters", aliases: []string{"cl", "cluster"}},
		{pane: "services", aliases: []string{"svc", "service"}},
		{pane: "sources", aliases: []string{"src", "source"}},
		{pane: "packages", aliases: []string{"pkg", "package", "up", "upgrades"}},
		{pane: "events", aliases: []string{"ev"}},
		{pane: "describe", about: true},
		{pane: "yaml", about: true},
		{pane: "diff", about: true},
		{pane: "logs", aliases: []string{"log"}, about: true},
		{pane: "tree", about: true},
		{pane: "history", about: true},
		{pane: "happened", about: true},
		{pane: "objects", aliases: []string{"get"}, kind: true},
		{pane: "commands", aliases: []string{"cmd"}, alone: true},
		{pane: "forwards", aliases: []string{"pf", "forward"}, alone: true},
		{pane: "help", alone: true, does: func() tea.Msg { return guide.Press{Key: "?"} }},
		{pane: "quit", aliases: []string{"q", "q!"}, alone: true, does: tea.Quit},
	}
}

// find is the command of a name or an alias.
func find(name string) (command, bool) {
	all := commands()
	at := slices.IndexFunc(all, func(c command) bool { return c.pane == name || slices.Contains(c.aliases, name) })
	if at < 0 {
		return command{}, false
	}
	return all[at], true
}

// Parse reads a line: a pane.Open, tea.QuitMsg or guide.Press; nil for a line that is empty. The error, a *Error, names the
// nearest word.
func Parse(line string, w *pane.World) (tea.Msg, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case name == "":
		return nil, nil //nolint:nilnil // nothing was said, and nothing is to be done
	case strings.HasPrefix(name, "@"):
		return pane.Open{Pane: "fleet", Filter: strings.TrimSpace(line)}, nil
	}
	c, ok := find(strings.ToLower(name))
	switch {
	case !ok && isKind(name, w):
		return objects(name, rest), nil
	case !ok:
		return nil, &Error{"there is no view " + quote(name), meant(":", nearest(name, append(all(), w.Kinds.Names()...)))}
	case c.kind && rest == "":
		return nil, &Error{"objects of which kind?", "name it as kubectl does: :get pods, :get certificates.cert-manager.io"}
	case c.kind:
		kind, filter, _ := strings.Cut(rest, " ")
		return objects(kind, strings.TrimSpace(filter)), nil
	case c.alone && rest != "":
		return nil, &Error{":" + c.pane + " takes nothing behind it", ""}
	case c.does != nil:
		return c.does(), nil
	case c.about:
		about, err := subject(c.pane, rest, w.Fleet)
		return pane.Open{Pane: c.pane, About: about}, err
	case c.pane == "clusters":
		rest = scopes(rest)
	}
	return pane.Open{Pane: c.pane, Filter: rest}, nil
}

// isKind says whether a word names a kind of objects: it is known as one, or has the name of a group behind it.
func isKind(word string, w *pane.World) bool {
	word = strings.ToLower(word)
	return strings.Contains(strings.Trim(word, "."), ".") || slices.Contains(w.Kinds.Names(), word)
}

// objects asks for all objects of a kind.
func objects(kind, filter string) pane.Open {
	return pane.Open{Pane: "objects", About: pane.Subject{Name: strings.ToLower(kind)}, Filter: filter}
}

// scopes are names of clusters with a star as the filter has them: prod-* is @prod-*.
func scopes(rest string) string {
	if name, found := strings.CutSuffix(rest, "*"); found && !strings.ContainsAny(name, ` @:~*"!^$|()[]{}+?\/`) {
		return "@" + rest
	}
	return rest
}

// subject is what a name means: "svc/web", "cl/edge-1" and "src/app" say it, "edge-1/web" is a deployment, and else it is a
// service, a cluster or a source, whatever there is of that name.
func subject(view, name string, f *model.Fleet) (pane.Subject, error) {
	switch {
	case name == "" && (view == "history" || view == "describe"):
		return pane.Subject{Kind: pane.KindFleet}, nil
	case name == "":
		return pane.Subject{}, &Error{view + " of what?", "name a service, a cluster, or CLUSTER/SERVICE: :" + view + " web"}
	case strings.Contains(name, " "):
		return pane.Subject{}, &Error{"one name at a time", ""}
	}
	if kind, rest, ok := strings.Cut(name, "/"); ok {
		if c, is := find(kind); is && !c.about && c.pane != "fleet" {
			return named(c.pane, rest, f)
		}
		if d := f.Deployments.Get(name); d != nil {
			return pane.Subject{
				Kind: pane.KindDeployment, Name: rest, Cluster: kind, Service: rest,
				Phase: d.Phase, Suspended: d.Suspended, Token: d.Token,
			}, nil
		}
		if f.Deployments.Whole() {
			return pane.Subject{}, &Error{"there is no deployment " + quote(name), meant(":"+view+" ", nearest(name, names(f)))}
		}
		return pane.Subject{Kind: pane.KindDeployment, Name: rest, Cluster: kind, Service: rest}, nil
	}
	for _, list := range []string{"services", "clusters", "sources"} {
		if s, err := named(list, name, f); err == nil && has(list, name, f) {
			return s, nil
		}
	}
	if f.Services.Whole() && f.Clusters.Whole() {
		return pane.Subject{}, &Error{"there is no service or cluster " + quote(name), meant(":"+view+" ", nearest(name, names(f)))}
	}
	return named("services", name, f)
}

// has says whether a list has that name.
func has(list, name string, f *model.Fleet) bool {
	switch list {
	case "services":
		return f.Services.Get(name) != nil
	case "clusters":
		return f.Clusters.Get(name) != nil
	case "sources":
		return f.Sources.Get(name) != nil
	case "packages":
		return f.Upgrades.Get(name) != nil
	}
	return false
}

// named is the row of a list that has a name, as far as it is known.
func named(list, name string, f *model.Fleet) (pane.Subject, error) {
	s := pane.Subject{Name: name}
	switch list {
	case "services":
		s.Kind, s.Service = pane.KindService, name
		if row := f.Services.Get(name); row != nil {
			s.Phase, s.Suspended = row.Phase, row.Suspended
		}
	case "clusters":
		s.Kind, s.Cluster = pane.KindCluster, name
		if row := f.Clusters.Get(name); row != nil {
			s.Phase = row.Phase
			if row.Held != nil {
				s.Token = row.Held.Token
			}
		}
	case "sources":
		s.Kind = pane.KindSource
	case "packages":
		s.Kind = pane.KindPackage
	default:
		return s, &Error{"there is no view of one of " + list, ""}
	}
	return s, nil
}

// Words complete the last word of a line, the nearest first.
func Words(line string, w *pane.World) []string {
	name, rest, more := strings.Cut(line, " ")
	last := line[strings.LastIndexByte(line, ' ')+1:]
	switch {
	case strings.HasPrefix(last, "@"):
		return begins(last, atClusters(w.Fleet))
	case !more:
		return begins(last, append(all(), w.Kinds.Names()...))
	}
	c, ok := find(strings.ToLower(name))
	switch {
	case !ok || c.alone || last == "" && strings.TrimSpace(rest) != "":
		return nil
	case c.about:
		return begins(last, names(w.Fleet))
	case c.kind && rest == last:
		return begins(last, w.Kinds.Names())
	}
	switch c.pane {
	case "clusters":
		return begins(last, ids(w.Fleet.Clusters, func(c *v1.Cluster) string { return c.Name }))
	case "sources":
		return begins(last, ids(w.Fleet.Sources, func(s *v1.Source) string { return s.Name }))
	case "packages":
		return begins(last, ids(w.Fleet.Upgrades, func(u *v1.Upgrade) string { return u.Installation }))
	}
	return begins(last, ids(w.Fleet.Services, func(s *v1.Service) string { return s.Name }))
}

// all are the words that a line can begin with: names before aliases.
func all() []string {
	var out, also []string
	for _, c := range commands() {
		out, also = append(out, c.pane), append(also, c.aliases...)
	}
	return append(out, also...)
}

// names are all services and clusters.
func names(f *model.Fleet) []string {
	return append(
		ids(f.Services, func(s *v1.Service) string { return s.Name }), ids(f.Clusters, func(c *v1.Cluster) string { return c.Name })...)
}

func atClusters(f *model.Fleet) []string {
	out := ids(f.Clusters, func(c *v1.Cluster) string { return c.Name })
	for i := range out {
		out[i] = "@" + out[i]
	}
	return out
}

// ids are the names of the rows of a list.
func ids[T any](l *model.List[T], name func(*T) string) []string {
	v := l.View()
	defer v.Close()
	out := make([]string, v.Len())
	for i := range out {
		out[i] = name(v.At(i))
	}
	return out
}

// begins are the first words that begin like this.
func begins(like string, words []string) []string {
	like = strings.ToLower(like)
	var out []string
	for _, word := range words {
		if len(out) == maxWords {
			break
		}
		if strings.HasPrefix(strings.ToLower(word), like) && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// nearest is the word that is most like one; empty: none is.
func nearest(like string, words []string) string {
	const most = 3
	like = strings.ToLower(like)
	best, distance := "", most+1
	for _, word := range words {
		if len(word)-len(like) > most || len(like)-len(word) > most {
			continue
		}
		if d := levenshtein.Distance(like, strings.ToLower(word), nil); d < distance && d < max(len(like), 2) {
			best, distance = word, d
		}
	}
	return best
}

// meant is a fix that names a word.
func meant(before, word string) string {
	if word == "" {
		return ""
	}
	return "perhaps " + before + word
}

// quote is a word in quotes, not much of it.
func quote(word string) string {
	const most = 40
	if r := []rune(word); len(r) > most {
		word = string(r[:most]) + "..."
	}
	return `"` + word + `"`
}
