package ui

import "github.com/pluralsh/plural/internal/buildinfo"

// Doc is a class of error: the name of a section of docs/errors.md, which says what such an error means, how it comes about, and
// what to do.
type Doc string

// The classes there are. A test holds them to the sections of the page, and to what the program says.
const (
	DocUsage         Doc = "usage"
	DocNoInput       Doc = "nobody-to-ask"
	DocUnconfirmed   Doc = "not-confirmed"
	DocFormat        Doc = "output-format"
	DocFilter        Doc = "filter"
	DocSettings      Doc = "settings"
	DocEditor        Doc = "editor"
	DocProgram       Doc = "program-missing"
	DocFile          Doc = "file-access"
	DocTimeout       Doc = "timeout"
	DocInterrupted   Doc = "interrupted"
	DocUnexpected    Doc = "unexpected"
	DocNoRepo        Doc = "no-repo"
	DocMistakes      Doc = "mistakes"
	DocUnfit         Doc = "unfit-files"
	DocNotFound      Doc = "not-found"
	DocExists        Doc = "exists-already"
	DocStillNamed    Doc = "still-named"
	DocNotCommitted  Doc = "not-committed"
	DocGit           Doc = "git-state"
	DocConflictPush  Doc = "conflict-push"
	DocMergeConflict Doc = "merge-conflict"
	DocUndo          Doc = "undo"
	DocUnfinished    Doc = "unfinished-change"

	DocNoHub          Doc = "no-hub"
	DocHubUnreachable Doc = "hub-unreachable"
	DocNetwork        Doc = "network"
	DocHubAnswer      Doc = "hub-answer"
	DocOtherHub       Doc = "another-repositorys-hub"
	DocLogin          Doc = "not-logged-in"
	DocUnboundToken   Doc = "unbound-token"
	DocForbidden      Doc = "not-allowed"
	DocRefusedCommit  Doc = "refused-commit"
	DocNotConverged   Doc = "not-converged"
	DocUnhealthy      Doc = "unhealthy"
	DocHeld           Doc = "waits-for-a-person"
	DocAgentStale     Doc = "agent-stale"
	DocPlainHTTP      Doc = "plain-http"
	DocKubeconfig     Doc = "kubeconfig"
	DocAudit          Doc = "audit-log"

	DocNothingSealed Doc = "nothing-sealed"
	DocCannotOpen    Doc = "sealed-for-others"
	DocNotSealed     Doc = "not-sealed"
	DocIdentity      Doc = "identity"
	DocWhoseKey      Doc = "whose-key"
	DocInTheWay      Doc = "files-in-the-way"

	DocPackage         Doc = "package-unknown"
	DocPackageAnswers  Doc = "package-answers"
	DocPackageConflict Doc = "package-conflict"
	DocSteps           Doc = "steps-failed"
	DocLockedDeploy    Doc = "locked-deploy"
	DocTerraform       Doc = "terraform"
	DocDestroys        Doc = "terraform-destroys"
	DocNoWay           Doc = "no-way-to-cluster"
	DocFleetNotUp      Doc = "fleet-not-up"
	DocImages          Doc = "images"
	DocLocal           Doc = "local-fleet"
)

// Address is where people read about the class.
func (d Doc) Address() string {
	if d == "" {
		return ""
	}
	return buildinfo.Project + "/blob/HEAD/docs/errors.md#" + string(d)
}
