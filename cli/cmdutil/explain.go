package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Explain turns the errors of the rooms below into what is told to people. An error that it does not know stays what it
// is, and so does one that is explained already.
func Explain(err error) error {
	var told *ui.Err
	if err == nil || errors.As(err, &told) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return &ui.Err{Msg: "interrupted", Code: ui.ExitInterrupted, Err: err}
	}
	for _, explain := range []func(error) *ui.Err{mistakes, refusal, unsealed, mispicked, hubSays, hubAway} {
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
	return Problems("the installation repo", FleetProblems(list))
}

// Problems is the error about all that is wrong with something; nil when there is nothing.
func Problems(subject string, problems []ui.Problem) *ui.Err {
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return &ui.Err{Msg: subject + " has an error", Problems: problems}
	}
	return &ui.Err{Msg: fmt.Sprintf("%s has %d errors", subject, len(problems)), Problems: problems}
}

// FleetProblems are the mistakes of a load, as they are told.
func FleetProblems(list fleet.Errors) []ui.Problem {
	problems := make([]ui.Problem, len(list))
	for i, e := range list {
		problems[i] = ui.Problem{Where: e.Position.String(), Message: e.Message, Fix: e.Fix}
	}
	return problems
}

func refusal(err error) *ui.Err {
	var refused *workspace.Error
	if !errors.As(err, &refused) {
		return nil
	}
	context := strings.TrimSuffix(strings.TrimSuffix(err.Error(), refused.Error()), ": ")
	if context == "" {
		return &ui.Err{Msg: refused.Message, Fix: refused.Fix, Err: err}
	}
	return &ui.Err{Msg: context, Cause: refused.Message, Fix: refused.Fix, Err: err}
}

// unsealed is about sealed files: errors there know what mends them.
func unsealed(err error) *ui.Err {
	if errors.Is(err, policy.ErrNone) {
		return &ui.Err{Msg: "nothing is sealed in this repository", Cause: err.Error(), Fix: "plural crypto init", Err: err}
	}
	var known interface {
		error
		Fix() string
	}
	if errors.As(err, &known) {
		return &ui.Err{Msg: err.Error(), Fix: known.Fix(), Err: err}
	}
	return nil
}

// mispicked is about what a person picks a list's rows by.
func mispicked(err error) *ui.Err {
	var wrong *filter.Error
	if errors.As(err, &wrong) {
		return &ui.Err{Msg: wrong.Error(), Fix: wrong.Fix, Doc: "plural help filters", Err: err}
	}
	var sorted *paging.Error
	if errors.As(err, &sorted) {
		return &ui.Err{Msg: sorted.Message, Fix: sorted.Fix, Err: err}
	}
	return nil
}

func hubSays(err error) *ui.Err {
	var answer *client.Error
	if !errors.As(err, &answer) {
		return nil
	}
	told := &ui.Err{Msg: answer.Message, Fix: answer.Fix, Err: err}
	switch answer.Status {
	case http.StatusUnauthorized:
		told.Msg, told.Cause, told.Code = "the hub does not know you", answer.Message, ui.ExitLogin
		if told.Fix == "" {
			told.Fix = "set PLURAL_TOKEN, or PLURAL_TOKEN_FILE to a file that holds the token"
		}
	case http.StatusForbidden:
		told.Msg, told.Cause = "the hub does not let you do this", answer.Message
	case http.StatusNotFound:
	default:
		told.Cause = fmt.Sprintf("the hub answered %d", answer.Status)
	}
	return told
}

func hubAway(err error) *ui.Err {
	var away *client.Unreachable
	if !errors.As(err, &away) {
		return nil
	}
	return &ui.Err{
		Msg: "cannot reach the hub at " + away.Hub, Cause: away.Err.Error(),
		Fix: "see that it runs and that this is its address: --hub URL, PLURAL_HUB, or spec.hub.url in plural.yaml", Err: err,
	}
}

// HeldProblem is why a service cannot be resolved, as it is told.
func HeldProblem(p *resolve.Problem) ui.Problem {
	message := "service " + p.Service
	if p.Cluster != "" {
		message += " on cluster " + p.Cluster
	}
	return ui.Problem{Where: p.Position.String(), Message: message + ": " + p.Message, Fix: p.Fix}
}
