package health

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// grace is how long the controller of a kind that nobody listed has for the first status of a new object. A kind that never
// gets one costs its first rollout this much, and none after that.
const grace = 30 * time.Second

// What conditions of kinds that nobody listed mean. Of the positive ones, the first row of which an object has any decides:
// all that it has of that row are to be True.
//
//nolint:gochecknoglobals // they never change
var (
	positive = [][]string{
		{"Ready"},
		{"Available", "Healthy", "Succeeded", "Complete", "Completed"},
		{
			"Synced", "Reconciled", "ReconcileSuccess", "Established", "Accepted", "Programmed", "ResolvedRefs", "Valid", "Validated",
			"Active", "Running", "Deployed", "Installed", "Provisioned", "Bound", "Applied", "Created", "Online", "Enabled", "Configured",
		},
	}
	negative = map[string]bool{
		"Stalled": true, "Failed": true, "Failure": true, "Error": true, "Errored": true, "Degraded": true, "Invalid": true,
		"Unhealthy": true, "Dangling": true, "Misconfigured": true, "Conflict": true, "Orphaned": true,
	}
	ongoing = map[string]bool{
		"Reconciling": true, "Progressing": true, "Pending": true, "Updating": true, "Upgrading": true, "Creating": true,
		"Deploying": true, "Installing": true, "Provisioning": true, "InProgress": true, "Initializing": true,
	}
)

// generic judges an object of a kind that nobody listed.
func generic(obj *unstructured.Unstructured, now time.Time) Status {
	status, _ := obj.Object["status"].(map[string]any)
	spec, _ := obj.Object["spec"].(map[string]any)
	for _, name := range []string{"suspend", "suspended", "paused"} {
		if rests, _ := spec[name].(bool); rests {
			return Status{Phase: Healthy, Message: suspended}
		}
	}
	if len(status) == 0 {
		return unwritten(obj, now, grace)
	}
	if message := outdated(obj); message != "" {
		return Status{Phase: Progressing, Message: message}
	}
	conditions, err := conditionsOf(obj)
	if err != nil {
		return unreadable(err)
	}
	if verdict, ok := byConditions(conditions); ok {
		return verdict
	}
	if verdict, ok := byFields(status); ok {
		return verdict
	}
	return Status{Phase: Healthy}
}

// unwritten is an object without a status: new, or of a kind that never has one. Clocks may differ; one that differs by more than
// the grace says nothing.
func unwritten(obj *unstructured.Unstructured, now time.Time, grace time.Duration) Status {
	created := obj.GetCreationTimestamp()
	if created.IsZero() || created.Time.After(now.Add(grace)) {
		return Status{Phase: Healthy}
	}
	waits := Status{Phase: Progressing, Message: "its controller has not written a status yet", Until: created.Add(grace).Unix()}
	return waits.At(now)
}

// byConditions judges by the conditions that are known here, if there are any.
func byConditions(conditions []condition) (Status, bool) {
	named := make(map[string]condition, len(conditions))
	for _, c := range conditions {
		named[c.name] = c
		switch isTrue := c.status == "True" && !c.stale; {
		case isTrue && c.isNegative():
			return Status{Phase: Degraded, Message: c.say()}, true
		case isTrue && c.name == "Reconciling":
			return Status{Phase: Progressing, Message: c.say()}, true
		}
	}
	for _, row := range positive {
		var verdict Status
		for _, name := range row {
			if c, ok := named[name]; ok {
				verdict = worse(verdict, c.verdict())
			}
		}
		if verdict.Phase != "" {
			return verdict, true
		}
	}
	var verdict Status
	for _, c := range conditions {
		switch {
		case strings.HasSuffix(c.name, "Ready"):
			verdict = worse(verdict, c.verdict())
		case ongoing[c.name] && c.status == "True":
			verdict = worse(verdict, Status{Phase: Progressing, Message: c.say()})
		}
	}
	return verdict, verdict.Phase != ""
}

// isNegative says that the condition is bad news when it is True.
func (c condition) isNegative() bool {
	return negative[c.name] || strings.HasSuffix(c.name, "Failed") || strings.HasSuffix(c.name, "Error")
}

// verdict is what a condition that should be True makes of its object.
func (c condition) verdict() Status {
	switch {
	case c.stale:
		return Status{Phase: Progressing, Message: c.name + " is about an older generation"}
	case c.status == "True":
		return Status{Phase: Healthy, Message: c.message}
	case c.status == "False" && c.failing():
		return Status{Phase: Degraded, Message: c.say()}
	}
	return Status{Phase: Progressing, Message: c.say()}
}

// worse is the one of two verdicts that says more; the first of equals.
func worse(a, b Status) Status {
	order := map[Phase]int{"": 0, Healthy: 1, Progressing: 2, Degraded: 3}
	if order[b.Phase] > order[a.Phase] {
		return b
	}
	return a
}

// byFields judges by a word in one of the fields that usually have it, if that says something.
func byFields(status map[string]any) (Status, bool) {
	message := ""
	for _, name := range []string{"message", "error", "errorMessage", "reason"} {
		if message = text(status, name); message != "" {
			break
		}
	}
	for _, name := range []string{"phase", "state", "health", "status"} {
		word := text(status, name)
		if inner, ok := status[name].(map[string]any); ok {
			word = text(inner, name)
		}
		switch verdict := meaning(word); {
		case word == "" || verdict == "":
		case verdict == Healthy:
			return Status{Phase: Healthy, Message: resting(word)}, true
		case message == "":
			return Status{Phase: verdict, Message: fmt.Sprintf("%s is %s", name, word)}, true
		default:
			return Status{Phase: verdict, Message: message}, true
		}
	}
	if ready, ok := status["ready"].(bool); ok {
		if ready {
			return Status{Phase: Healthy}, true
		}
		return Status{Phase: Progressing, Message: message}, true
	}
	return Status{}, false
}

// meaning is the phase that a word stands for, or nothing.
func meaning(word string) Phase {
	switch word = strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word)); word {
	case "ready", "running", "active", "bound", "succeeded", "success", "successful", "available", "healthy", "ok", "complete", "completed",
		"deployed", "established", "online", "up", "synced", "insync", "applied", "valid", "accepted", "enabled", "connected",
		"installed", "provisioned", "created", "finished", "done", "green", "normal", "stable", "attached", "approved", "serving", "operational",
		"suspended", "paused", "stopped", "hibernated", "disabled", "idle":
		return Healthy
	case "failed", "failure", "error", "errored", "degraded", "unhealthy", "invalid", "rejected", "lost", "offline", "crashed",
		"red", "stalled", "aborted", "timeout", "timedout", "denied", "broken", "faulted", "misconfigured",
		"unavailable", "expired", "crashloopbackoff":
		return Degraded
	case "pending", "creating", "progressing", "provisioning", "initializing", "initialising", "starting", "updating", "upgrading",
		"installing", "reconciling", "deploying", "inprogress", "processing", "scheduling", "waiting", "queued", "new", "scaling",
		"configuring", "notready", "bootstrapping", "joining", "applying", "validating", "syncing", "binding", "restarting", "importing",
		"deleting", "terminating", "stopping":
		return Progressing
	}
	if failure(word) {
		return Degraded
	}
	return ""
}

// resting is the message of an object whose work rests because a person wants that.
func resting(word string) string {
	switch strings.ToLower(word) {
	case "suspended", "paused", "stopped", "hibernated", "disabled":
		return suspended
	}
	return ""
}
