package apiproxy

import (
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal is an answer that the API server did not give, in the API server's words.
type refusal = metav1.Status

func status(code int32, reason metav1.StatusReason, message string) *refusal {
	return &refusal{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

func forbidden(message string) *refusal {
	return status(http.StatusForbidden, metav1.StatusReasonForbidden, message)
}

func badRequest(message string) *refusal {
	return status(http.StatusBadRequest, metav1.StatusReasonBadRequest, message)
}

func badGateway(message string) *refusal {
	return status(http.StatusBadGateway, metav1.StatusReasonInternalError, message)
}

func unavailable(message string) *refusal {
	return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, message)
}

func refuse(w http.ResponseWriter, s *refusal) {
	text, err := json.Marshal(s)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(int(s.Code))
	w.Write(text)
}
