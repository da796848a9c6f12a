package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
)

// refuse is an answer of the hub's own, in the words of a Kubernetes API server: every client can show it.
func refuse(code int, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}}
}

// later says when to try again. Clients do that by themselves, whatever the method: so it is only for what was surely not
// passed on, or may be passed on twice.
func later(e *apierrors.StatusError, after time.Duration) *apierrors.StatusError {
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(max(1, after/time.Second))}
	return e
}

// nobody is the answer to a request of nobody that is known.
func nobody(err error) *apierrors.StatusError {
	status, message, fix := principal.Answer(err)
	if status == http.StatusServiceUnavailable {
		return later(unavailable(message), time.Second)
	}
	return refuse(status, metav1.StatusReasonUnauthorized, message+": "+fix)
}

// unknown is the answer for a cluster that there is not, and for one that the person may not know of.
func unknown(cluster string) *apierrors.StatusError {
	return refuse(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("cluster %.80q not found: plural cluster list", cluster))
}

func badRequest(message string) *apierrors.StatusError {
	return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, message)
}

func forbidden(message string) *apierrors.StatusError {
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, message)
}

func unavailable(message string) *apierrors.StatusError {
	return refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, message)
}

// tooMany says which bound was reached, in words.
func tooMany(bound string) *apierrors.StatusError {
	what := map[string]string{
		"person-requests":  "you have too many requests under way",
		"person-watches":   "you have too many watches and followed logs under way",
		"person-upgrades":  "you have too many connections (exec, attach, port-forward) under way",
		"person-queue":     "too many of your requests wait already",
		"person-record":    OverPace,
		"cluster-streams":  "the cluster has too many requests under way",
		"cluster-watches":  "the cluster has too many watches and followed logs under way",
		"cluster-upgrades": "the cluster has too many connections (exec, attach, port-forward) under way",
		"cluster-rate":     "too many requests begin at the cluster in one second",
	}[bound]
	return later(refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, what+": try again later"), time.Second)
}

// unreached says that there is no connection to the cluster.
func unreached(cluster string, err error) *apierrors.StatusError {
	return later(unavailable(fmt.Sprintf("cluster %q cannot be reached now: %v", cluster, err)), time.Second)
}

// uncarried is what became of a request that was passed on and has no answer. repeatable says that doing it again does no harm.
func uncarried(cluster string, err error, repeatable bool) *apierrors.StatusError {
	var carried *httpstream.Error
	if !errors.As(err, &carried) {
		carried = &httpstream.Error{Code: codes.Unavailable, Message: err.Error()}
	}
	message := fmt.Sprintf("cluster %q did not answer: %s", cluster, carried.Message)
	repeatable = repeatable || carried.Unsent
	switch code := carried.HTTPStatus(); code {
	case http.StatusForbidden:
		return forbidden(fmt.Sprintf("the agent of cluster %q refuses: %s", cluster, carried.Message))
	case http.StatusTooManyRequests: // the agent takes no more streams; or what it answers is more than the channel takes
		refusal := refuse(code, metav1.StatusReasonTooManyRequests, message)
		if repeatable {
			return later(refusal, time.Second)
		}
		return refusal
	case http.StatusServiceUnavailable:
		if repeatable {
			return later(unavailable(message), time.Second)
		}
		return unavailable(message + ": whether it did what was asked is not known")
	case http.StatusGatewayTimeout:
		return refuse(code, metav1.StatusReasonTimeout, message)
	case http.StatusBadRequest:
		return badRequest(carried.Message)
	default:
		return refuse(code, metav1.StatusReasonInternalError, message)
	}
}

// unreadable is the answer to a target that is not passed on.
func unreadable(err error) *apierrors.StatusError {
	var path *kubeaccess.PathError
	if errors.As(err, &path) {
		return badRequest(path.Error())
	}
	return badRequest("request cannot be read")
}

// writeStatus sends an answer of the hub's own.
func writeStatus(w http.ResponseWriter, e *apierrors.StatusError) {
	status := &e.ErrStatus
	body, err := json.Marshal(status)
	if err != nil { // of strings and numbers: it does not happen
		body = nil
	}
	h := w.Header()
	protect(h)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	if status.Code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="plural"`)
	}
	w.WriteHeader(int(status.Code))
	w.Write(append(body, '\n'))
}
