package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
)

// ErrContended says that another engine kept writing the inventory of the service while this one worked on it. Nothing is
// wrong with the service, and the next call goes on from what the other one has written.
var ErrContended = inventory.ErrConflict

// Reason is the state of an object that could not be applied or deleted.
type Reason string

const (
	// Conflict: the object belongs to another service, or is no longer the one that was applied.
	Conflict Reason = "Conflict"
	// Invalid: the object can never be accepted as it is written.
	Invalid Reason = "Invalid"
	// Immutable: the change is one that this kind does not allow.
	Immutable Reason = "Immutable"
	// Forbidden: the agent has no permission.
	Forbidden Reason = "Forbidden"
	// Denied: an admission webhook, policy or quota said no.
	Denied Reason = "Denied"
	// MissingKind: the cluster does not serve this kind.
	MissingKind Reason = "MissingKind"
	// MissingNamespace: the object's namespace does not exist.
	MissingNamespace Reason = "MissingNamespace"
	// NamespaceTerminating: the object's namespace is being deleted.
	NamespaceTerminating Reason = "NamespaceTerminating"
	// OutOfBounds: the service may not touch the object's namespace.
	OutOfBounds Reason = "OutOfBounds"
	// Reserved: the object is the agent's own, or says what the agent or people from the hub may do.
	Reserved Reason = "Reserved"
	// Blocked: what the object depends on failed in the same pass.
	Blocked Reason = "Blocked"
	// Busy: somebody else changed or is deleting the object at this moment.
	Busy Reason = "Busy"
	// TooManyRequests: the API server asked to slow down, and kept asking.
	TooManyRequests Reason = "TooManyRequests"
	// Unavailable: the API server, or something that it calls, does not answer.
	Unavailable Reason = "Unavailable"
	// HookFailed: the hook ran, and did not end well.
	HookFailed Reason = "HookFailed"
	// Unexpected: an answer that this package has no name for.
	Unexpected Reason = "Unexpected"
)

// lasting says whether time alone is unlikely to mend it.
func (r Reason) lasting() bool {
	return slices.Contains([]Reason{Conflict, Invalid, Immutable, Forbidden, Denied, OutOfBounds, Reserved, HookFailed}, r)
}

// Error says what is wrong with one object. Fix says what a person can do, and is empty when waiting is enough.
type Error struct {
	Reason  Reason
	Object  object.ID
	Message string
	Fix     string
	cause   error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Object, e.Message)
	if e.Fix != "" {
		text += ": " + e.Fix
	}
	return text
}

// Unwrap returns the API server's own error, or nil.
func (e *Error) Unwrap() error { return e.cause }

// UnansweredError says that a pass broke off since the API server of the cluster gave no answer. Nothing is wrong with the service.
type UnansweredError struct{ cause error }

// Error tells why there is no answer, without the address that was asked and what for.
func (e *UnansweredError) Error() string {
	why := e.cause
	var request *url.Error
	if errors.As(e.cause, &request) {
		why = request.Err
	}
	return "the cluster's API server does not answer: " + oneLine(why.Error())
}

// Unwrap returns the error of the request.
func (e *UnansweredError) Unwrap() error { return e.cause }

// unanswered is an error of a pass, which is an *UnansweredError where a request got no answer though nobody broke it off.
func unanswered(ctx context.Context, err error) error {
	var request *url.Error
	if ctx.Err() != nil || answered(err) || !errors.As(err, &request) {
		return err
	}
	return &UnansweredError{err}
}

// answered reports whether err is the API server's word, rather than the lack of one.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// describe gives the API server's refusal of one object its state.
func describe(id object.ID, err error) *Error {
	out := &Error{Object: id, Message: words(id, err), cause: err}
	out.Reason, out.Fix = classify(err)
	switch {
	case out.Reason == MissingNamespace:
		out.Fix = "kubectl create namespace " + id.Namespace + ", or add the Namespace to the service"
	case isUnknownField(err):
		out.Fix = "write it right, or take it out: kubectl explain " + strings.ToLower(id.Kind) + " names the fields"
	}
	if id.IsSecret() {
		out.cause = nil // its text may quote the secret
	}
	return out
}

func classify(err error) (Reason, string) {
	switch {
	case isRefusedConflict(err):
		return Conflict, "let the other manager give it up, take it out of the manifest, or say in spec.sync.fields who is to have it"
	case !answered(err):
		return Unavailable, ""
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return NamespaceTerminating, ""
	case apierrors.IsTooManyRequests(err):
		return TooManyRequests, ""
	case object.Denied(err):
		return Denied, ""
	case isImmutable(err):
		return Immutable, "take the change back, or let the object be made anew: annotate it with plural.sh/recreate=allow, or name its kind in " +
			"spec.sync.recreate"
	case isInvalid(err):
		return Invalid, ""
	case isEscalation(err):
		return Forbidden, "name an account that has these rights in spec.serviceAccount, or give them to the agent: " +
			"plural deploy with permissions=admin in the answers of its package"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return Forbidden, "grant that account this verb"
	case apierrors.IsNotFound(err):
		return missing(err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return Busy, ""
	case isUnavailable(err):
		return Unavailable, ""
	default:
		return Unexpected, ""
	}
}

func missing(err error) (Reason, string) {
	if about := details(err); about != nil && about.Kind == "namespaces" {
		return MissingNamespace, ""
	}
	return MissingKind, ""
}

// isInvalid includes what does not fit the kind's schema, which the API server may report as an internal error.
func isInvalid(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), typedPatch)
}

// What the API server says of an object that does not fit its kind's schema.
const (
	typedPatch   = "failed to create typed patch object"
	unknownField = ": field not declared in schema"
)

func isUnknownField(err error) bool {
	return strings.Contains(err.Error(), typedPatch) && strings.Contains(err.Error(), unknownField)
}

// unfit is the API server's word on an object that does not fit its kind's schema, without what names the object once more.
func unfit(text string) string {
	_, rest, ok := strings.Cut(text, typedPatch)
	if !ok {
		return text
	}
	if _, told, ok := strings.Cut(rest, "): "); ok {
		text = strings.TrimPrefix(told, "errors: ")
	}
	return strings.ReplaceAll(text, unknownField, ": unknown field")
}

// isImmutable goes by text: the API server has no code for it, and each kind has words of its own.
func isImmutable(err error) bool {
	if !apierrors.IsInvalid(err) {
		return false
	}
	return slices.ContainsFunc(causes(err), func(cause metav1.StatusCause) bool {
		for _, text := range []string{"immutable", "may not change", "updates to "} {
			if strings.Contains(cause.Message, text) {
				return true
			}
		}
		return false
	})
}

// isEscalation goes by the words of Kubernetes' RBAC, which lets nobody give away rights that they do not have.
func isEscalation(err error) bool {
	return apierrors.IsForbidden(err) && (strings.Contains(err.Error(), "attempting to grant RBAC permissions") ||
		strings.Contains(err.Error(), "must have cluster-admin privileges"))
}

// isAdmission tells a webhook's or a policy's own words, which may quote anything, from the API server's.
func isAdmission(err error) bool {
	return strings.Contains(err.Error(), "denied the request") || strings.Contains(err.Error(), "denied request")
}

func isUnavailable(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError
}

func details(err error) *metav1.StatusDetails {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	return status.Status().Details
}

func causes(err error) []metav1.StatusCause {
	if about := details(err); about != nil {
		return about.Causes
	}
	return nil
}

// maxMessage bounds what is repeated of the API server's words, which may quote whole values.
const maxMessage = 1000

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "..."
	}
	return text
}

// words is what the API server said, in one line. It quotes the values that it refuses, so of a Secret only the names
// of the fields are repeated.
func words(id object.ID, err error) string {
	if isRefusedConflict(err) {
		return err.Error()
	}
	if !answered(err) {
		return fmt.Sprintf("reach the API server: %v", err)
	}
	switch {
	case id.IsSecret() && isAdmission(err):
		return "an admission webhook or policy denied it, in words that may hold its values and are not repeated"
	case !id.IsSecret() || !isInvalid(err):
		return unfit(oneLine(plainValues(err.Error())))
	}
	if told := misfitOfSecret(err.Error()); told != "" {
		return told
	}
	var fields []string
	for _, cause := range causes(err) {
		fields = append(fields, cause.Field)
	}
	if len(fields) == 0 {
		return "the API server refused it, in words that may hold its values and are not repeated"
	}
	return "the API server refused " + strings.Join(fields, ", ")
}
