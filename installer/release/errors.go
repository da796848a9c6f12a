package release

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/agent/apply"
)

// UnreachableError says that a cluster's API server does not answer.
type UnreachableError struct {
	Cluster, Host string
	Err           error
}

// Error says what came instead of an answer.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cluster %s cannot be reached at %s: %s", e.Cluster, e.Host, oneLine(e.Err.Error()))
}

// Unwrap is the failure of the last request.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Fix says what to do.
func (e *UnreachableError) Fix() string {
	var name *net.DNSError
	switch {
	case hopeless(e.Err):
		return "the kubeconfig trusts another certificate authority than the server's: fetch the kubeconfig of " + e.Cluster + " anew"
	case errors.As(e.Err, &name):
		return "see that the name " + name.Name + " resolves here: a VPN may have to be up"
	}
	return "see that it runs and that this machine has a way to it, or name another: --context " + e.Cluster + "=CONTEXT"
}

// hopeless says of a request without an answer that the next will have none either.
func hopeless(err error) bool {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &authority) || errors.As(err, &host)
}

// RefusedError says that a cluster's API server does not let this person do what every release takes.
type RefusedError struct {
	Cluster string
	Err     error
}

// Error is what the API server said.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("cluster %s refuses: %s", e.Cluster, oneLine(e.Err.Error()))
}

// Unwrap is the API server's own error.
func (e *RefusedError) Unwrap() error { return e.Err }

// Fix says what to do.
func (e *RefusedError) Fix() string {
	if apierrors.IsUnauthorized(e.Err) {
		return "log in to the cluster again: the credentials of its context are no longer good"
	}
	return "use a context that may do this, such as an administrator's: --context " + e.Cluster + "=CONTEXT"
}

// unanswered says of a failed request that the API server has not answered it.
func unanswered(err error) bool {
	var status apierrors.APIStatus
	var broken *url.Error
	var network net.Error
	return !errors.As(err, &status) && (errors.As(err, &broken) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF))
}

// refused says whether the API server knows who asks, and does not let them; or does not know them.
func refused(err error) bool { return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) }

// OtherClusterError says that a way that should lead to one cluster leads to another.
type OtherClusterError struct{ Cluster, Is, Hub string }

// Error says which one it is.
func (e *OtherClusterError) Error() string {
	if e.Is == e.Cluster {
		return fmt.Sprintf("the way to cluster %s leads to one of that name in another fleet, that of the hub %s", e.Cluster, e.Hub)
	}
	return fmt.Sprintf("the way to cluster %s leads to cluster %s of the hub %s", e.Cluster, e.Is, e.Hub)
}

// Fix says what to do.
func (e *OtherClusterError) Fix() string {
	return fmt.Sprintf("name the right one with --context %s=CONTEXT; to give this cluster to the fleet: plural cluster register %[1]s", e.Cluster)
}

// NotReadyError says why a deployment is not live and healthy.
type NotReadyError struct {
	Cluster, Service string
	// Object is the first that stands in the way, as kubectl is told its name; empty when it is none alone.
	Object string
	// Reason is one of apply's, a phase of health, or Held, Waiting, Test.
	Reason  string
	Message string
	// Solution is empty when nothing is known that helps.
	Solution string
	// Others is how many more objects are not as they should be.
	Others int
	Err    error
}

// Reasons of a NotReadyError beside those of the engine and the phases of health.
const (
	// Held deletions wait for a person.
	Held = "Held"
	// Waiting steps wait for something that did not come.
	Waiting = "Waiting"
	// Test is one that gates the deployment, and failed.
	Test = "Test"
)

// Error says which object it is and what is wrong with it.
func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("cluster %s: service %s: ", e.Cluster, e.Service)
	if e.Object != "" {
		text += e.Object + ": "
	}
	text += e.Message
	if e.Others > 0 {
		text += fmt.Sprintf(" (and %d more objects)", e.Others)
	}
	return text
}

// Unwrap is the object's own error, if it has one.
func (e *NotReadyError) Unwrap() error { return e.Err }

// Fix says what to do.
func (e *NotReadyError) Fix() string { return e.Solution }

// final says whether to give up on an object that is refused for this reason, once it was tried for a while.
func final(reason apply.Reason) bool {
	switch reason {
	case apply.Conflict, apply.Invalid, apply.Immutable, apply.Forbidden, apply.Denied, apply.OutOfBounds, apply.Reserved,
		apply.HookFailed:
		return true
	}
	return false
}

// solution is what helps against an object's error: the engine's own word, or what the reason and the words tell.
func solution(err *apply.Error) string {
	id := err.Object
	switch {
	case err.Reason == apply.HookFailed:
		return fmt.Sprintf("kubectl logs -n %s %s/%s; %s", id.Namespace, strings.ToLower(id.Kind), id.Name, err.Fix)
	case err.Fix != "":
		return err.Fix
	}
	switch err.Reason {
	case apply.Denied, apply.Unavailable, apply.Unexpected:
		return advice(err.Message, id.Namespace)
	case apply.Invalid:
		return "correct the manifest"
	case apply.OutOfBounds:
		return "name the namespace under spec.allowedNamespaces, or move the object"
	case apply.NamespaceTerminating:
		return fmt.Sprintf("see what keeps the namespace: kubectl get namespace %s -o jsonpath='{.status.conditions}'", id.Namespace)
	}
	return ""
}

// advice is what helps against words of admission, of controllers and of the API server.
func advice(words, namespace string) string {
	has := func(text string) bool { return strings.Contains(words, text) }
	switch {
	case has("violates PodSecurity"):
		return fmt.Sprintf("give the pod the securityContext that is asked for, or loosen the namespace's label pod-security.kubernetes.io/enforce: "+
			"kubectl get namespace %s --show-labels", namespace)
	case has("exceeded quota"):
		return fmt.Sprintf("ask for less, or raise the quota: kubectl describe resourcequota -n %s", namespace)
	case has("failed calling webhook"), has("failed to call webhook"):
		return "bring up what serves the webhook, or take its configuration away: " +
			"kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
	case has("denied the request"), has("denied request"):
		return "change the object as the webhook or policy asks, or ask whoever runs it"
	case has("ImagePullBackOff"), has("ErrImagePull"):
		return "see that the image exists and that the cluster may pull it"
	}
	return ""
}

// oneLine is text for one line of a screen.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
