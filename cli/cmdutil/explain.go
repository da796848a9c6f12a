package cmdutil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/hosts"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/identities"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/installer/local"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/solve"
)

// Explain turns the errors of the rooms below into what is told to people. An error that it does not know stays what it
// is, and so does one that is explained already.
func Explain(err error) error {
	var told *ui.Err
	if err == nil || errors.As(err, &told) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return &ui.Err{Msg: "interrupted", Doc: ui.DocInterrupted, Code: ui.ExitInterrupted, Err: err}
	}
	for _, explain := range []func(error) *ui.Err{
		mistakes, refusal, unfit, missing, unsealed, unsolved, mispicked, noHub, hubSays, hubOfOthers, hubAway, clusterSays, inaccessible,
		network,
	} {
		if told := explain(err); told != nil {
			return told
		}
	}
	return err
}

func mistakes(err error) *ui.Err {
	var list fleet.Errors
	if !errors.As(err, &list) {
		return nil
	}
	told := Problems("the installation repo", FleetProblems(list))
	told.Fix = "mend it there; plural undo takes back the newest commit, where it came with that"
	return told
}

// Problems is the error about all that is wrong with something; nil when there is nothing.
func Problems(subject string, problems []ui.Problem) *ui.Err {
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return &ui.Err{Msg: subject + " has an error", Problems: problems, Doc: ui.DocMistakes}
	}
	return &ui.Err{Msg: fmt.Sprintf("%s has %d errors", subject, len(problems)), Problems: problems, Doc: ui.DocMistakes}
}

// FleetProblems are the mistakes of a load, as they are told.
func FleetProblems(list fleet.Errors) []ui.Problem {
	problems := make([]ui.Problem, len(list))
	for i, e := range list {
		problems[i] = ui.Problem{Where: e.Position.String(), Message: e.Message, Fix: e.Fix, Missing: e.Missing}
	}
	return problems
}

// FirstMistake is the first of the mistakes for which a fleet cannot be read, with its place.
func FirstMistake(err error) string {
	var mistakes fleet.Errors
	if !errors.As(err, &mistakes) || len(mistakes) == 0 {
		return ui.Clean(err.Error())
	}
	return mistakes[0].Position.String() + ": " + ui.Clean(mistakes[0].Message)
}

func refusal(err error) *ui.Err {
	var refused *workspace.Error
	if !errors.As(err, &refused) {
		return nil
	}
	told := &ui.Err{Msg: refused.Message, Fix: refused.Fix, Doc: ui.DocGit, Err: err}
	if errors.Is(err, workspace.ErrConflict) || errors.Is(err, workspace.ErrMoved) {
		told.Doc = ui.DocConflictPush
	}
	before := strings.TrimSuffix(err.Error(), refused.Error())
	if context, whole := strings.CutSuffix(before, ": "); whole {
		told.Msg, told.Cause = context, refused.Message
	} else {
		told.Msg = before + refused.Message
	}
	return told
}

// unfit is about files that no snapshot takes in, by what they are called or by their size.
func unfit(err error) *ui.Err {
	var tree *snapshot.TreeError
	if errors.As(err, &tree) {
		return &ui.Err{
			Msg: fmt.Sprintf("%q is no name for a file of a repository", tree.Name), Cause: err.Error(),
			Fix: "find it, in quotes, with git status or git ls-files; then git mv or git rm it, and git commit", Doc: ui.DocUnfit, Err: err,
		}
	}
	var limit *snapshot.LimitError
	if errors.As(err, &limit) {
		return &ui.Err{
			Msg: limit.What + " is too large for a repository", Cause: err.Error(),
			Fix: "keep it elsewhere: git rm --cached it where it is committed, list it in .gitignore, and git commit", Doc: ui.DocUnfit, Err: err,
		}
	}
	return nil
}

// missing is about a repo, a commit or a key that is not where it was looked for.
func missing(err error) *ui.Err {
	var key *values.Error
	switch {
	case errors.Is(err, workspace.ErrNotFound):
		return &ui.Err{
			Msg: "this is not an installation repo", Cause: err.Error(),
			Fix: "change into one, name one with -C DIR, or make one: plural init", Doc: ui.DocNoRepo, Err: err,
		}
	case errors.Is(err, plumbing.ErrReferenceNotFound):
		return &ui.Err{Msg: err.Error(), Fix: "git log --oneline --all; git fetch, if it is newer", Doc: ui.DocNotFound, Err: err}
	case errors.As(err, &key):
		return &ui.Err{Msg: err.Error(), Fix: "plural secret list " + key.File + " names the keys it has", Doc: ui.DocNotFound, Err: err}
	}
	return nil
}

// unsealed is about sealed files: errors there know what mends them.
func unsealed(err error) *ui.Err {
	if errors.Is(err, policy.ErrNone) {
		return &ui.Err{
			Msg: "nothing is sealed in this repository", Cause: err.Error(), Fix: "plural crypto init", Doc: ui.DocNothingSealed, Err: err,
		}
	}
	var known interface {
		error
		Fix() string
	}
	if errors.As(err, &known) {
		return &ui.Err{Msg: err.Error(), Fix: known.Fix(), Doc: classOf(err), Err: err}
	}
	return nil
}

// classOf is the class of an error that knows its fix.
func classOf(err error) ui.Doc {
	var locked *sealer.LockedError
	var refused *leakcheck.RefusedError
	var loose *identities.LooseError
	switch {
	case errors.As(err, &locked):
		return ui.DocCannotOpen
	case errors.As(err, &refused):
		return ui.DocNotSealed
	case errors.As(err, &loose):
		return ui.DocIdentity
	}
	return ""
}

// unsolved is about packages that do not go together, or that no catalog has.
func unsolved(err error) *ui.Err {
	var conflict *solve.ConflictError
	if errors.As(err, &conflict) {
		told := &ui.Err{
			Msg: "no versions fit together", Fix: "ask for another range of versions in one of these files",
			Doc: ui.DocPackageConflict, Err: err,
		}
		for _, reason := range conflict.Reasons {
			told.Problems = append(told.Problems, ui.Problem{Message: reason})
		}
		if len(conflict.Fixes) > 0 {
			told.Fix = strings.Join(conflict.Fixes, "\nor ")
		}
		return told
	}
	var circle *solve.CycleError
	if errors.As(err, &circle) {
		return &ui.Err{
			Msg: "packages depend on each other in a circle", Cause: strings.Join(circle.Names, " -> "),
			Fix: "one of them has to do without the other", Doc: ui.DocPackageConflict, Err: err,
		}
	}
	var unknown *solve.UnknownError
	if errors.As(err, &unknown) {
		return &ui.Err{Msg: unknown.Error(), Fix: "plural package search", Doc: ui.DocPackage, Err: err}
	}
	return nil
}

// inaccessible is about files and folders that cannot be read or written as a command has to.
func inaccessible(err error) *ui.Err {
	var file *fs.PathError
	if !errors.As(err, &file) {
		return nil
	}
	told := &ui.Err{Msg: err.Error(), Doc: ui.DocFile, Err: err}
	switch {
	case errors.Is(file.Err, fs.ErrPermission):
		told.Fix = "see whose it is: ls -ld " + file.Path
	case errors.Is(file.Err, fs.ErrNotExist):
		told.Fix = "see that the name is right: ls " + filepath.Dir(file.Path)
	case errors.Is(file.Err, syscall.EROFS):
		told.Fix = "the disk is read-only: mount " + filepath.Dir(file.Path) + " so that it can be written, or work elsewhere"
	case errors.Is(file.Err, syscall.ENOSPC), errors.Is(file.Err, syscall.EDQUOT):
		told.Fix = "make room on the disk: df " + filepath.Dir(file.Path)
	case errors.Is(file.Err, syscall.EISDIR), errors.Is(file.Err, syscall.ENOTDIR):
		told.Fix = "name a file where a file is meant, and a folder where a folder is: ls -ld " + file.Path
	default:
		return nil
	}
	return told
}

// mispicked is about what a person picks a list's rows by.
func mispicked(err error) *ui.Err {
	var wrong *filter.Error
	if errors.As(err, &wrong) {
		return &ui.Err{Msg: wrong.Error(), Fix: wrong.Fix, See: "plural help filters", Doc: ui.DocFilter, Err: err}
	}
	var sorted *paging.Error
	if errors.As(err, &sorted) {
		return &ui.Err{Msg: sorted.Message, Fix: sorted.Fix, Doc: ui.DocFilter, Err: err}
	}
	return nil
}

// forbidden is one of the fleet's people, as an API server names who it refuses something.
var forbidden = regexp.MustCompile(`User "(plural:[^"]+)" cannot `)

// Grant is how a user or a group is given a role in a cluster, where its RBAC refuses something.
func Grant(role, kind, name string) string {
	return fmt.Sprintf("as an administrator of the cluster, without the hub: kubectl create clusterrolebinding %s-%s --clusterrole=%s --%s=%s",
		strings.ReplaceAll(name, ":", "-"), role, role, kind, name)
}

func hubSays(err error) *ui.Err {
	var answer *client.Error
	if !errors.As(err, &answer) {
		return nil
	}
	told := &ui.Err{Msg: answer.Message, Fix: answer.Fix, Err: err}
	switch answer.Status {
	case http.StatusUnauthorized:
		told.Msg, told.Cause, told.Code, told.Doc = "the hub does not know you", answer.Message, ui.ExitLogin, ui.DocLogin
		if at := LocalRepo(answer.Hub, ""); at != "" {
			told.Fix = "plural up --local " + at + " logs in as the operator of this machine's fleet; with a token: plural auth login"
		}
		if told.Fix == "" {
			told.Fix = "plural auth login; in scripts set PLURAL_HUB, and PLURAL_TOKEN or PLURAL_TOKEN_FILE"
		}
	case http.StatusForbidden:
		if answer.Cluster != "" && strings.Contains(answer.Message, " is forbidden: ") { // the words of its API server
			told.Msg, told.Cause, told.Doc = "RBAC of cluster "+answer.Cluster+" does not let you do this", answer.Message, ui.DocForbidden
			if user := forbidden.FindStringSubmatch(answer.Message); user != nil {
				told.Fix = Grant("view", "user", user[1])
			}
			return told
		}
		told.Msg, told.Cause, told.Doc = "the hub does not let you do this", answer.Message, ui.DocForbidden
		told.Fix = cmp.Or(told.Fix, "plural auth status shows who you are to it; who may do what stands in access/ of the installation repo")
	case http.StatusNotFound:
		told.Doc = ui.DocNotFound
		if answer.Cluster != "" { // it is the cluster that does not have it
			told.Fix = cmp.Or(told.Fix, "see what is there: plural service tree NAME")
		}
		told.Fix = cmp.Or(told.Fix, "plural status shows what the hub has")
	case http.StatusServiceUnavailable:
		if answer.Cluster != "" {
			return clusterAway(answer)
		}
		fallthrough
	default:
		told.Cause, told.Doc = fmt.Sprintf("the hub answered %d", answer.Status), ui.DocHubAnswer
		told.Fix = cmp.Or(told.Fix, "plural hub status; plural version compares the hub's with this program's")
	}
	return told
}

// clusterAway is about a cluster that the hub has no way to now.
func clusterAway(answer *client.Error) *ui.Err {
	told := &ui.Err{Msg: answer.Message, Fix: answer.Fix, Doc: ui.DocAgentStale, Err: answer}
	if process := stopped(answer.Hub, "", local.AgentPart+answer.Cluster); process != "" {
		told.Cause, told.Fix = process+" of this machine's fleet is stopped", "plural local start "+process
	}
	told.Fix = cmp.Or(told.Fix, "plural cluster get "+answer.Cluster+" says when its agent was heard last")
	return told
}

// stopped is the process of that name of the fleet of this machine whose hub is at an address, and serves the wanted repository
// where one is, if somebody stopped that process; empty otherwise.
func stopped(hub, wanted, process string) string {
	for _, at := range fleetsAt(hub, wanted) {
		parts, err := at.Parts()
		if err != nil {
			continue
		}
		for i := range parts {
			if parts[i].Name == process && parts[i].Stopped {
				return process
			}
		}
	}
	return ""
}

// LocalRepo is the folder of the repo of this machine's fleet whose hub is at an address, and serves the wanted repository where one
// is; empty where it is no fleet of this machine.
func LocalRepo(address, wanted string) string {
	for _, at := range fleetsAt(address, wanted) {
		return at.Repo
	}
	return ""
}

// fleetsAt are the fleets of this machine whose hub is at an address, of the wanted repository where one is. What cannot be read
// is none: that something is away is told all the same.
func fleetsAt(hub, wanted string) []local.Fleet {
	fleets, err := local.All(LocalState())
	if err != nil {
		return nil
	}
	var found []local.Fleet
	for _, at := range fleets {
		if own, err := at.HubURL(); err != nil || !hosts.Same(own, hub) {
			continue
		}
		if _, repository := at.Identity(); wanted != "" && repository != wanted {
			continue // it had the same port once
		}
		found = append(found, at)
	}
	return found
}

func noHub(err error) *ui.Err {
	var other *client.NoHub
	if !errors.As(err, &other) {
		return nil
	}
	return &ui.Err{
		Msg:   "what answers at " + other.Answer.Hub + " is no hub",
		Cause: fmt.Sprintf("it answered %d, and not as a hub does", other.Answer.Status),
		Fix:   "name the hub's address: --hub URL, PLURAL_HUB, or spec.hub.url in plural.yaml",
		Doc:   ui.DocHubUnreachable, Err: err,
	}
}

// hubOfOthers is about a hub that serves another repository. Of fleets on this machine it tells which.
func hubOfOthers(err error) *ui.Err {
	var other *client.OtherRepository
	if !errors.As(err, &other) {
		return nil
	}
	told := &ui.Err{
		Msg:   fmt.Sprintf("the hub at %s serves another repository", other.Hub),
		Cause: fmt.Sprintf("it serves the repository %s; this one is %s", other.Serves, other.Wanted),
		Fix:   "name this repository's hub: spec.hub.url in plural.yaml; plural --hub " + other.Hub + " asks that one all the same",
		Doc:   ui.DocOtherHub, Err: err,
	}
	fleets, err := local.All(LocalState())
	if err != nil {
		return told
	}
	for _, at := range fleets {
		switch name, repository := at.Identity(); repository {
		case "":
		case other.Serves:
			told.Cause = fmt.Sprintf("it serves %s, in %s", name, at.Repo)
		case other.Wanted:
			told.Fix = "plural up --local " + at.Repo + " brings this fleet back"
		}
	}
	return told
}

// Stopped is the error about a hub of this machine that does not answer because its fleet is down, or somebody stopped the hub alone;
// nil where that is not why. Nobody waits for such a hub: a person has to start it.
func Stopped(err error) *ui.Err {
	var away *client.Unreachable
	if !errors.As(err, &away) {
		return nil
	}
	for _, at := range fleetsAt(away.Hub, away.Wanted) {
		if up, running := at.Running(); running == nil && !up {
			return &ui.Err{
				Msg: "this fleet is down", Cause: "nothing of the local fleet in " + at.Repo + " runs, and so no hub at " + away.Hub,
				Fix: "plural up --local " + at.Repo, Doc: ui.DocLocal, Err: err,
			}
		}
	}
	if process := stopped(away.Hub, away.Wanted, local.HubPart); process != "" {
		return &ui.Err{
			Msg: "the hub of this fleet is stopped", Cause: "somebody stopped that process; nothing answers at " + away.Hub,
			Fix: "plural local start " + process, Doc: ui.DocLocal, Err: err,
		}
	}
	return nil
}

func hubAway(err error) *ui.Err {
	var away *client.Unreachable
	if !errors.As(err, &away) {
		return nil
	}
	if told := Stopped(err); told != nil {
		return told
	}
	told := &ui.Err{
		Msg: "cannot reach the hub at " + away.Hub, Cause: away.Err.Error(),
		Fix: "see that it runs and that this is its address: --hub URL, PLURAL_HUB, or spec.hub.url in plural.yaml",
		Doc: ui.DocHubUnreachable, Err: err,
	}
	// Where nothing listens, its running is what to look at first.
	if cause, fix := unreached(away.Err); fix != "" && cause != nothingListens {
		told.Msg, told.Fix = told.Msg+": "+cause, fix
	}
	return told
}

// clusterSays is about what a cluster's API server answered, or the hub in its place.
func clusterSays(err error) *ui.Err {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return nil
	}
	told := &ui.Err{Msg: err.Error(), Err: err}
	switch answer.Status().Code {
	case http.StatusUnauthorized:
		told.Fix, told.Code, told.Doc = "plural auth login", ui.ExitLogin, ui.DocLogin
	case http.StatusForbidden:
		told.Fix, told.Doc = "plural auth status shows who you are to the hub", ui.DocForbidden
	case http.StatusNotFound:
		told.Fix, told.Doc = "see what is there: plural service tree NAME", ui.DocNotFound
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		told.Fix, told.Doc = "see whether the hub hears of the cluster: plural cluster list", ui.DocAgentStale
	default:
		return nil
	}
	return told
}

// HeldProblem is why a service cannot be resolved, as it is told.
func HeldProblem(p *resolve.Problem) ui.Problem {
	message := "service " + p.Service
	if p.Cluster != "" {
		message += " on cluster " + p.Cluster
	}
	return ui.Problem{Where: p.Position.String(), Message: message + ": " + p.Message, Fix: p.Fix}
}
