package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// inOurWords is the error about a word that is no command, where it is one of kubectl's, argocd's, flux's or helm's: its fix is then
// the command that does the same here. Other errors stay as they are.
func inOurWords(root *cobra.Command, err error) error {
	var unknown *cmdutil.UnknownCommandError
	if !errors.As(err, &unknown) {
		return err
	}
	ours := translated(root, unknown.Words)
	if ours == "" {
		return err
	}
	return &ui.Err{
		Msg: fmt.Sprintf("plural has no command %q", strings.Join(unknown.Words, " ")), Fix: ours, Code: ui.ExitDiffers, Err: unknown,
	}
}

// sentence is a command line of another tool that is not put together here as it is there. NAME in what it is here stands for the
// word that comes after it.
type sentence struct{ theirs, ours string }

// sentences come in the order in which they are looked for: what another begins with stands behind it.
func sentences() []sentence {
	return []sentence{
		{"apply", "git commit and git push, and the clusters follow; plural diff shows what that changes"},
		{"get all", "plural status"},
		{"get pods", "plural service tree NAME; on a cluster: plural kubectl CLUSTER get pods"},
		{"get pod", "plural service tree NAME; on a cluster: plural kubectl CLUSTER get pods"},
		{"get po", "plural service tree NAME; on a cluster: plural kubectl CLUSTER get pods"},
		{"get events", "plural service events NAME; of clusters: plural cluster events"},
		{"events", "plural service events NAME; of clusters: plural cluster events"},
		{"rollout status", "plural wait service/NAME"},
		{"rollout undo", "plural service rollback NAME"},
		{"rollout restart", "plural service restart NAME"},
		{"rollout", "plural service history NAME"},
		{"scale", "plural service set NAME replicas=N"},
		{"service scale", "plural service set NAME replicas=N"},
		{"set", "plural service set SERVICE PARAMETER=VALUE"},
		{"service logs", "plural logs svc/NAME"},
		{"service wait", "plural wait service/NAME"},
		{"service exec", "plural kubectl CLUSTER exec POD"},
		{"cluster logs", "plural logs agent/NAME"},
		{"hub logs", "plural logs hub"},
		{"agent logs", "plural logs agent/NAME"},
		{"agent list", "plural cluster list"},
		{"agent status", "plural cluster list; its log: plural logs agent/CLUSTER"},
		{"cluster wait", "plural wait cluster/NAME"},
		{"cluster add", "plural cluster register NAME"},
		{"config view", "plural config list"},
		{"config get-contexts", "plural cluster list"},
		{"config use-context", "plural kube config NAME"},
		{"context", "plural kube config NAME"},
		{"login", "plural auth login"},
		{"logout", "plural auth logout"},
		{"account", "plural auth status"},
		{"whoami", "plural auth status"},
		{"auth whoami", "plural auth status"},
		{"auth can-i", "plural auth status; on a cluster: plural kubectl CLUSTER auth can-i VERB KIND"},
		{"secret edit", "plural crypto edit FILE"},
		{"secret rotate", "plural secret set FILE KEY; new keys for sealed files: plural crypto rotate"},
		{"package validate", "plural package lint"},
		{"package info", "plural package show NAME"},
		{"package describe", "plural package show NAME"},
		{"bootstrap", "plural up"},
		{"check", "plural doctor"},
		{"trace", "plural why NAME"},
		{"stats", "plural status"},
		{"health", "plural status"},
		{"ps", "plural service list; the processes of this machine's fleets: plural local list"},
		{"pr", "plural service set SERVICE PARAMETER=VALUE --pr; each command that commits takes --pr"},
		{"ui", "plural tui; in a browser: plural hub open"},
		{"dashboard", "plural tui; in a browser: plural hub open"},
		{"k9s", "plural tui; on a cluster: plural kube run CLUSTER -- k9s"},
		{"api", "curl HUB/v1/openapi.json, which describes the hub's API; plural hub status names the hub"},
		{"install", "plural package add NAME"},
		{"upgrade", "plural package upgrade NAME"},
		{"uninstall", "plural package remove NAME"},
		{"search", "plural package search NAME"},
		{"template", "plural render NAME"},
		{"lint", "plural validate"},
		{"dependency", "plural package graph"},
		{"env", "plural config list"},
		{"ns", "plural kubectl CLUSTER get namespaces"},
	}
}

// translated is what a command line of another tool is here; nothing where that is not known.
func translated(root *cobra.Command, words []string) string {
	typed := strings.Join(words, " ")
	words = strings.FieldsFunc(typed, func(r rune) bool { return r == ' ' || r == '/' }) // svc/web is svc web
	if len(words) > 0 && noun(root, words[0]) != nil {
		words[0] = noun(root, words[0]).Name()
	}
	for _, s := range sentences() {
		theirs := strings.Fields(s.theirs)
		if len(words) < len(theirs) || !slices.Equal(words[:len(theirs)], theirs) {
			continue
		}
		if rest := words[len(theirs):]; len(rest) > 0 {
			return strings.ReplaceAll(s.ours, "NAME", rest[len(rest)-1])
		}
		return s.ours
	}
	switch {
	case len(words) == 0:
		return ""
	case noun(root, words[0]) != nil && len(words) == 1:
		return noun(root, words[0]).CommandPath() + " --help"
	case noun(root, words[0]) != nil:
		return does(noun(root, words[0]), words[1], words[2:])
	case len(words) > 1 && noun(root, words[1]) != nil:
		if ours := does(noun(root, words[1]), words[0], words[2:]); ours != "" {
			return ours
		}
	}
	if len(words) == 2 && words[0] == "describe" { // its kind is left out, or it is one
		return "plural service get " + words[1] + "; on a cluster: plural kubectl CLUSTER " + typed
	}
	if len(words) < 3 { // kubectl exec NAME; sync NAME
		if ours := does(noun(root, "service"), words[0], words[1:]); ours != "" && words[0] != "get" {
			return ours
		}
	}
	if slices.Contains(strings.Fields(kubectlVerbs), words[0]) {
		return "plural kubectl CLUSTER " + typed
	}
	return ""
}

// kubectlVerbs are what a cluster does and a fleet does not.
const kubectlVerbs = "get describe create delete edit patch exec attach cp debug port-forward top label annotate cordon uncordon drain " +
	"taint api-resources api-versions run expose autoscale cluster-info"

// noun is the command for a noun, which is ours or another tool's, in the singular or the plural; nil: there is none.
func noun(root *cobra.Command, word string) *cobra.Command {
	theirs := map[string]string{
		"app": "service", "application": "service", "kustomization": "service", "ks": "service", "helmrelease": "service", "hr": "service",
		"release": "service", "repo": "source", "repositorie": "source", "repository": "source", "gitrepository": "source",
		"helmrepository": "source", "ocirepository": "source", "chart": "package",
	}
	for _, name := range []string{word, strings.TrimSuffix(word, "s")} {
		if ours, ok := theirs[name]; ok {
			name = ours
		}
		for _, cmd := range root.Commands() {
			if cmd.HasSubCommands() && (cmd.Name() == name || cmd.HasAlias(name)) {
				return cmd
			}
		}
	}
	return nil
}

// does is the command by which a noun does what a verb, ours or another tool's, says.
func does(noun *cobra.Command, verb string, names []string) string {
	for _, ours := range append([]string{verb}, verbs()[verb]...) {
		if verb == "get" && len(names) == 0 { // kubectl's is a list then
			ours = "list"
		}
		for _, cmd := range noun.Commands() {
			if cmd.Name() != ours && !cmd.HasAlias(ours) {
				continue
			}
			if cmd.HasSubCommands() {
				if len(names) > 0 {
					if further := does(cmd, names[0], names[1:]); further != "" {
						return further
					}
				}
				return cmd.CommandPath() + " --help"
			}
			if len(names) > 0 { // flux names the kind of a source between
				names = names[len(names)-1:]
			}
			if cmd.ValidateArgs(names) != nil {
				return strings.TrimSuffix(cmd.UseLine(), " [flags]")
			}
			return strings.Join(append([]string{cmd.CommandPath()}, names...), " ")
		}
	}
	return ""
}

// verbs are the words of other tools with ours, of which a noun has one or another.
func verbs() map[string][]string {
	more := map[string][]string{}
	for theirs, ours := range map[string]string{
		"ls":                                    "list",
		"describe show info inspect view":       "get show status",
		"add new create":                        "create add register",
		"install":                               "add create",
		"rm remove del delete uninstall revoke": "delete remove",
		"update patch change":                   "set upgrade sync",
		"refresh reconcile fetch pull":          "sync",
		"pause":                                 "suspend",
		"unpause continue":                      "resume",
		"undo revert":                           "rollback",
		"manifests template build export":       "render",
		"resources pods objects":                "tree",
		"log":                                   "history",
		"status":                                "get",
	} {
		for _, word := range strings.Fields(theirs) {
			more[word] = strings.Fields(ours)
		}
	}
	return more
}
