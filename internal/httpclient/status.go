package httpclient

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StatusError says that a server answered something else than what was asked for.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Host answered.
	Host string
	// Keys are the names of the credentials that it may have been shown.
	Keys []string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.Host, e.Code, http.StatusText(e.Code))
	switch e.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		if len(e.Keys) == 0 {
			return text + ": no credentials were given for it"
		}
		return text + ": the credentials given (" + strings.Join(e.Keys, ", ") + ") are not good for this, or no longer"
	case http.StatusNotFound:
		if len(e.Keys) == 0 {
			return text + ": there is nothing of that name, or it is shown only with credentials"
		}
		return text + ": there is nothing of that name, or not for the credentials given (" + strings.Join(e.Keys, ", ") + ")"
	}
	return text
}

// CheckStatus is nil when an answer's status is one of 200 to 299, else a *StatusError with the names of c's keys.
func CheckStatus(res *http.Response, c Credentials) error {
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil
	}
	return &StatusError{Code: res.StatusCode, Host: res.Request.URL.Host, Keys: c.Keys()}
}

// retryLater is a *RetryError when the server asked for patience.
func retryLater(res *http.Response) error {
	after := parseRetryAfter(res.Header.Get("Retry-After"), time.Now())
	switch res.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusServiceUnavailable, http.StatusForbidden: // some hosts limit rates with 403
		if after == 0 {
			return nil
		}
	default:
		return nil
	}
	text := fmt.Sprintf("%s answered %d %s", res.Request.URL.Host, res.StatusCode, http.StatusText(res.StatusCode))
	if after > 0 {
		text += fmt.Sprintf(" and wants to be left alone for %s", after.Round(time.Second))
	}
	return &RetryError{After: after, Err: fmt.Errorf("%s", text)}
}

// parseRetryAfter reads seconds or a date; zero when it is neither, or past.
func parseRetryAfter(value string, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	when, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(when.Sub(now), 0), most)
}
