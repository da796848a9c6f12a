package deploy

import (
	"errors"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/clusters"
	"github.com/pluralsh/plural/installer/deploy"
	"github.com/pluralsh/plural/installer/existing"
	"github.com/pluralsh/plural/installer/journal"
	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/probe"
	"github.com/pluralsh/plural/installer/terraform"
)

// classified is the error with the class of what stopped a deploy, where it is one that has a section of its own.
func classified(err error) error {
	doc := classOf(err)
	if err == nil || doc == "" {
		return err
	}
	var told *ui.Err
	if !errors.As(cmdutil.Explain(err), &told) {
		return err
	}
	out := *told
	out.Doc = doc
	return &out
}

func classOf(err error) ui.Doc {
	switch {
	case is[*ledger.LockedError](err), is[*journal.BusyError](err), is[*terraform.LockedError](err):
		return ui.DocLockedDeploy
	case is[*deploy.DestroyError](err), is[*terraform.DestroyError](err):
		return ui.DocDestroys
	case is[*terraform.MissingError](err), is[*terraform.VersionError](err), is[*terraform.FailedError](err),
		is[*terraform.StateError](err), is[*terraform.InputError](err), is[*terraform.StoppedError](err):
		return ui.DocTerraform
	case is[*deploy.NoWayError](err), is[*existing.UnreachableError](err), is[*clusters.ContextError](err), is[*probe.NoClusterError](err):
		return ui.DocNoWay
	case is[*deploy.DirtyError](err), is[*deploy.BehindError](err):
		return ui.DocNotCommitted
	case is[*deploy.NotHealthyError](err):
		return ui.DocUnhealthy
	}
	return ""
}

func is[E error](err error) bool {
	var one E
	return errors.As(err, &one)
}
