package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/tui"
)

// topic is a help page that belongs to no command. Its text is what `plural help NAME` prints, and what docs/help/NAME.md says:
// paragraphs, with tables and examples indented.
type topic struct{ name, short, text string }

// topics are the help pages there are. The order is that of their list.
func topics() []topic {
	return []topic{
		{"environment", "Environment variables, with what is set instead", environmentTopic},
		{"formatting", "What -o, --jq and pipes do to what is printed", formattingTopic},
		{"exit-codes", "What the program ends with", exitCodesTopic},
		{"filters", "How rows of lists are picked", filtersTopic},
		{"keys", "Keys of the console", tui.Keys()},
		{"git", "How a change becomes a commit, and is taken back", gitTopic},
	}
}

// topicCommands are the commands `plural help NAME`.
func topicCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, t := range topics() {
		commands = append(commands, &cobra.Command{Use: t.name, Short: t.short, Long: t.text})
	}
	return append(commands, newFlagsTopic())
}

func newFlagsTopic() *cobra.Command {
	topic := &cobra.Command{Use: "flags", Short: "Flags of every command"}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "Flags of every command.\n\n%s", cmd.Root().PersistentFlags().FlagUsagesWrapped(columns))
	})
	return topic
}

const exitCodesTopic = `Exit codes.

  0    it worked
  1    it failed, or the command line makes no sense
  2    differences, an unhealthy fleet, or something outdated, only with
       --exit-code; or a command of kubectl, argocd, flux or helm, for which
       the error says what it is here
  4    the hub does not know who asks
  8    --timeout ended before the work did
  130  interrupted

plural kubectl, plural kube run and plugins end with the code of the program
that they run. An error is told on stderr, as one JSON object with -o json or
--jq, and then nothing is on stdout.`

const environmentTopic = `Environment variables. A flag wins over a variable, a variable over what
plural config has, and that over the default.

  PLURAL_HUB         the hub's URL, as --hub. Between it and plural config
                     stands what the installation repo says of its hub
  PLURAL_TOKEN       the token to show to the hub that --hub, PLURAL_HUB
                     or plural config names, or that you have logged in to
  PLURAL_TOKEN_FILE  a file that holds it
  PLURAL_ALLOW_PLAIN_HTTP   set: a token may go to a hub without TLS that is
                     not on this machine
  PLURAL_CA_FILE     certificates, PEM, by which to know a hub beside the
                     system's
  PLURAL_REPO        the installation repo, as --dir
  PLURAL_CONFIG_DIR  where config.yaml, hosts.yaml and identities lie, instead
                     of $XDG_CONFIG_HOME/plural
  PLURAL_CACHE_DIR   where copies of packages lie, instead of
                     $XDG_CACHE_HOME/plural
  PLURAL_ALLOW_FILE_SOURCES   set: a catalog may be a git repository on this
                     machine, file:///DIR, as plural hub serve has the flag

  PLURAL_OUTPUT               as plural config set output
  PLURAL_COLOR                as plural config set color
  PLURAL_PAGER, PAGER         the pager of long output: less -FRX
  PLURAL_EDITOR, VISUAL, EDITOR   the editor of plural service edit and others
  PLURAL_ASCII                set: no lines and marks beyond ASCII
  PLURAL_NO_UPDATE_NOTIFIER   set: never look for a newer release
  PLURAL_NO_MOUSE             true: the console leaves the mouse to the terminal
  PLURAL_SKIN                 the console's colors: dark, light, high-contrast, none, or a file in skins/

  PLURAL_IDENTITY       the age identity that opens sealed files, and no other
  PLURAL_IDENTITY_FILE  a file that holds it
  PLURAL_IDENTITY_FD    the number of an open file descriptor with it

  NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM=dumb   as everywhere
  ACCESSIBLE         set: ask line by line, for screen readers
  CI                 set: never ask, never look for a newer release
  HTTPS_PROXY, HTTP_PROXY, NO_PROXY   the way to the hub

Plugins, programs plural-NAME on PATH, are given PLURAL_HUB, PLURAL_REPO and
PLURAL_PROGRAM, the path of this program.`

const formattingTopic = `Output. Results are on stdout. Progress, hints and the command to run next are
on stderr, and --quiet leaves them out; so are errors, and then nothing is on
stdout.

People get tables on a terminal, aligned and cut to its width. A pipe gets the
same header and the same rows, whole: those of lists separated by tabs, those of
screens such as status and get aligned. A list without rows has no header.

  --no-headers       leaves the header out, everywhere

  -o table           what people read; wide has more columns
  -o json, yaml      the types of the hub's API: docs/api/openapi.json.
                     Fields are added, never renamed
  -o name            kind/name, a line each
  -o jsonpath=TEXT   as kubectl has it: jsonpath={.items[*].name}
  -o template=TEXT   a Go template: template={{range .items}}{{.name}} {{end}}
  -o csv             of plural access report alone, for spreadsheets
  -o markdown        of plural diff alone: a comment for a pull request
  --jq EXPRESSION    the JSON as jq picks it: --jq '.items[].name'

With --watch a terminal shows the newest state in one place. A pipe gets the
header once and rows as they change, with "gone" at the end of one that is no more; with -o json a line
each time: the list first, then {"items": [what changed], "gone": [names]}.

A text higher than the terminal goes through PLURAL_PAGER, PAGER, or less;
--no-pager prints it. A pager is a program with flags, not a line for a shell.

Colors are for terminals: --color always or never decides otherwise, and so do
NO_COLOR and CLICOLOR_FORCE. Color never says anything that words do not.

  plural service list --no-headers | cut -f 1
  plural service list -o json
  plural cluster list --jq '.items[] | select(.phase != "healthy") | .name'
  plural service get podinfo -o jsonpath={.phase}`

const filtersTopic = `Filters. They are terms with spaces between them, all of which have to hold.
Case does not matter. The same ones work with --filter and in the console.

  web                  a name contains the text
  health:degraded      exactly this value
  health:degraded,failed   one of them
  cluster:prod-*       what begins so
  message~image        the value contains the text
  env:prod             any key that is no field is a tag of the cluster
  env:                 there is no value
  !env:prod, -web      the opposite
  "two words"          quotes keep spaces, commas and stars
  ^web-, a|b, pay.*api   a word with any of ^ $ | ( ) [ ] { } + ? \ or .* is a
                       regular expression (RE2), looked for in names
  /web/                so is what stands between slashes
  @prod-*              the cluster, as cluster:prod-*
  -l env=prod,tier!=db tags, as kubectl has them: all have to hold; env is a
                       tag that is there, !env one that is not
  -f pymt              a name has these characters, in this order

Which keys a list has, it says when it is asked for another. -l is a flag of
lists, too; so are --sort, by columns such as -health,name, and --limit. Names
before the flags pick by name, where a star stands for any text.

Clusters have tags, and so have services on them: plural status lists these,
cluster by cluster. There is no -A: a list is of the whole fleet unless
something picks.

  plural status --filter 'health:degraded env:prod'
  plural cluster list 'prod-*' -l tier=web --sort -health
  plural service list --filter '^pay|^shop' --watch`

const gitTopic = `Git. The installation repo is the only source of what clusters run. A command
that changes the fleet edits files of your clone, shows the difference, commits
it, pushes it, and waits until the hub has observed the commit and the clusters
run it.

  -m, --message TEXT   the commit's message
  --dry-run            show the difference, and change nothing
  --no-commit          edit the files, and leave the commit to you
  --no-push            commit, and leave the push to you
  --pr                 push a branch, and open a pull request
  --wait=false         do not wait for the clusters

Files that you changed yourself are never part of such a commit. A push that
somebody else was faster with is tried again on top of theirs.

plural undo reverts the newest change of the fleet, and plural undo COMMIT
another one, as a new commit that it shows first. History is never rewritten.

  plural service set podinfo replicas=3
  plural undo

plural crypto init sets up git so that sealed files are opened in your clone and
sealed on their way into a commit. plural crypto status says what is sealed, and
for whom.`
