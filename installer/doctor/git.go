package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/internal/httpclient"
)

const (
	// oldestGit is the first that knows all options that this program gives it.
	oldestGit = 31 // 2.31
	// carefulGit is the first that can be told to take no folder for a bare repository.
	carefulGit = 38 // 2.38
)

// git are the checks of git, of the clone and of its remote.
func (x *exam) git() []Check {
	return []Check{
		{Group: "git", Name: "version", Before: true, Run: x.gitVersion},
		{Group: "git", Name: "identity", Before: true, Run: x.gitIdentity},
		{Group: "git", Name: "work tree", Run: x.workTree},
		{Group: "git", Name: "remote", Before: true, Run: x.gitRemote},
		{Group: "git", Name: "pushed", Run: x.pushed},
		{Group: "git", Name: "deployments", Run: x.deployments},
	}
}

// clone is where the repo's branch stands, and where it goes.
type clone struct {
	branch, head string // head is empty on a branch without commits
	remote       string // empty for none
	url          *url.URL
}

// run runs git in the repo, or here when there is none.
func (x *exam) run(ctx context.Context, args ...string) (string, error) {
	call := gitexec.Call{Args: args, Env: []string{"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "SSH_ASKPASS_REQUIRE=force"}}
	if args[0] == "status" { // which may run this program's filter; nothing else is given keys
		call.Env = append(call.Env, x.Environment...)
	}
	if x.Repo != nil {
		call.Dir = x.Repo.Root()
	}
	if os.Getenv("SSH_ASKPASS") == "" {
		call.Env = append(call.Env, "SSH_ASKPASS=false") // the program that says no: nobody waits for a check to ask
	}
	out, err := call.Run(ctx)
	return strings.TrimRight(string(out), "\n"), err
}

func (x *exam) gitVersion(ctx context.Context) Result {
	const fix = "install git 2.31 or newer"
	out, err := x.run(ctx, "version")
	if err != nil {
		return because(err, "git does not run", fix)
	}
	m := regexp.MustCompile(`(\d+)\.(\d+)[.\d]*`).FindStringSubmatch(out)
	if m == nil {
		return warn(fix, "%q tells no version", out)
	}
	major, _ := strconv.Atoi(m[1]) // digits; one that is too large is new enough
	minor, _ := strconv.Atoi(m[2])
	if major < 2 || major == 2 && minor < oldestGit {
		return fail(fix, "git is version %s", m[0])
	}
	if major == 2 && minor < carefulGit {
		return warn("install git 2.38 or newer", "git %s takes files of a clone for a repository, and runs what they name", m[0])
	}
	return ok("git %s", m[0])
}

func (x *exam) gitIdentity(ctx context.Context) Result {
	const fix = `git config --global user.name "YOUR NAME" && git config --global user.email YOU@EXAMPLE.COM`
	var missing []string
	for _, setting := range [][2]string{{"user.name", "GIT_AUTHOR_NAME"}, {"user.email", "GIT_AUTHOR_EMAIL"}} {
		if value, err := x.run(ctx, "config", setting[0]); (err != nil || value == "") && os.Getenv(setting[1]) == "" {
			missing = append(missing, setting[0])
		}
	}
	if len(missing) > 0 {
		return warn(fix, "git does not know who you are (%s): your commits would be made by \"plural\"", strings.Join(missing, ", "))
	}
	who, err := x.run(ctx, "var", "GIT_AUTHOR_IDENT")
	if err != nil {
		return because(err, "git does not know who you are", fix)
	}
	who, _, _ = strings.Cut(who, ">")
	return ok("%s>", who)
}

// readRepo finds out where the repo's branch stands.
func (x *exam) readRepo(ctx context.Context) (*clone, error) {
	if x.Repo == nil {
		return nil, x.absent()
	}
	c := &clone{}
	branch, err := x.run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	c.branch = branch // empty when HEAD is detached
	if c.head, err = x.run(ctx, "rev-parse", "--quiet", "--verify", "HEAD"); err != nil {
		c.head = ""
	}
	remotes, err := x.run(ctx, "remote")
	if err != nil {
		return nil, err
	}
	names := strings.Fields(remotes)
	upstream, _ := x.run(ctx, "config", "branch."+branch+".remote") // none is set: origin is meant
	for _, name := range append([]string{upstream, "origin"}, names...) {
		if slices.Contains(names, name) {
			c.remote = name
			break
		}
	}
	if c.remote != "" {
		if address, err := x.run(ctx, "remote", "get-url", c.remote); err == nil {
			c.url, _ = url.Parse(address) // nil for host:path, which holds no password
		}
	}
	return c, nil
}

// errNoRepo is why checks of a repo have nothing to look at.
var errNoRepo = errors.New("there is no installation repo here")

func (x *exam) absent() error {
	if x.NoRepo != nil {
		return x.NoRepo
	}
	return errNoRepo
}

func (x *exam) workTree(ctx context.Context) Result {
	c, err := x.repo(ctx)
	if err != nil {
		return skipped("%v", err)
	}
	if c.branch == "" {
		return fail("git switch BRANCH", "HEAD is detached: a commit there would belong to no branch")
	}
	for _, busy := range [][2]string{{"MERGE_HEAD", "merge"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}} {
		if _, err := x.run(ctx, "rev-parse", "--quiet", "--verify", busy[0]); err == nil {
			return fail("finish it, or: git "+busy[1]+" --abort", "a %s is under way", busy[1])
		}
	}
	out, err := x.run(ctx, "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return because(err, "git cannot say what has changed", "git status")
	}
	if out != "" {
		return warn("git status; then commit them, or put them away", "%s not committed, so no cluster gets them",
			plural(strings.Count(out, "\n")+1, "change is", "changes are"))
	}
	return ok("branch %s, nothing to commit", c.branch)
}

// askRemote lists the remote's branches.
func (x *exam) askRemote(ctx context.Context) (map[string]string, error) {
	c, err := x.repo(ctx)
	if err != nil {
		return nil, err
	}
	out, err := x.run(ctx, "ls-remote", "--heads", c.remote)
	if err != nil {
		return nil, httpclient.RedactError(err, c.url, httpclient.Credentials{})
	}
	branches := map[string]string{}
	for line := range strings.Lines(out) {
		if oid, name, ok := strings.Cut(strings.TrimSpace(line), "\trefs/heads/"); ok {
			branches[name] = oid
		}
	}
	return branches, nil
}

func (x *exam) gitRemote(ctx context.Context) Result {
	c, err := x.repo(ctx)
	if err != nil {
		return skipped("%v", err)
	}
	if c.remote == "" {
		return warn("git remote add origin URL", "the repo has no remote, so no hub can fetch it")
	}
	branches, err := x.remote(ctx)
	if err != nil {
		return because(err, fmt.Sprintf("remote %q cannot be asked", c.remote),
			"see that it can be reached, with your credentials: git ls-remote "+c.remote)
	}
	return ok("%s answers, with %s", c.remote, plural(len(branches), "branch", "branches"))
}

func (x *exam) pushed(ctx context.Context) Result {
	c, err := x.repo(ctx)
	switch {
	case err != nil:
		return skipped("%v", err)
	case c.remote == "" || c.branch == "" || c.head == "":
		return skipped("there is nothing to push, or nowhere to push it")
	}
	branches, err := x.remote(ctx)
	if err != nil {
		return skipped("remote %q cannot be asked", c.remote)
	}
	theirs, there := branches[c.branch]
	if !there {
		return warn("git push --set-upstream "+c.remote+" "+c.branch, "branch %s is not at %s", c.branch, c.remote)
	}
	if theirs == c.head {
		return ok("%s is where %s has it", c.branch, c.remote)
	}
	if _, err := x.run(ctx, "cat-file", "-e", theirs); err != nil {
		return warn("git pull --rebase", "%s has commits on %s that are not here", c.remote, c.branch)
	}
	counts, err := x.run(ctx, "rev-list", "--left-right", "--count", theirs+"...HEAD")
	if err != nil {
		return because(err, "git cannot compare the branch with the remote's", "git fetch")
	}
	behind, ahead, _ := strings.Cut(counts, "\t")
	if behind != "0" {
		return warn("git pull --rebase", "%s has %s commits on %s that are not here", c.remote, behind, c.branch)
	}
	return warn("git push", "%s commits are not pushed, so no cluster gets them", ahead)
}

// deployments looks at the record of what was deployed.
func (x *exam) deployments(ctx context.Context) Result {
	c, err := x.repo(ctx)
	if err != nil {
		return skipped("%v", err)
	}
	l, err := ledger.Open(x.Repo)
	if err != nil {
		return because(err, "the record of deployments cannot be read", "git fetch "+c.remote+" "+ledger.Ref+" says why")
	}
	l.NoInput = true
	record, err := l.Read(ctx)
	var away *ledger.RemoteError
	switch {
	case errors.As(err, &away):
		return skipped("remote %q cannot be asked", away.Remote)
	case err != nil:
		return because(err, "the record of deployments cannot be read", "git fetch "+c.remote+" "+ledger.Ref+" says why")
	case record.Lock != nil:
		locked := &ledger.LockedError{Lock: *record.Lock}
		return warn(locked.Fix(), "%s", locked.Error())
	}
	return ok("%s recorded, nobody deploys", plural(len(record.Installations), "package is", "packages are"))
}
