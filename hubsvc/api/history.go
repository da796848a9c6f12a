package api

import (
	"errors"
	"net/http"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/principal"
)

// history answers with a page of commits, of a service where the path names one.
func (a *API) history(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	if a.History == nil {
		noHistory(w)
		return
	}
	q, err := paging.FromURL(r.URL.Query())
	var page *v1.List[v1.Revision]
	if err == nil {
		page, err = a.History(r.Context(), r.PathValue("name"), q)
	}
	if err != nil {
		unread(w, err)
		return
	}
	replyList(w, r, page)
}

func (a *API) revision(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	if a.Revision == nil {
		noHistory(w)
		return
	}
	found, err := a.Revision(r.Context(), r.PathValue("name"))
	if err != nil {
		unread(w, err)
		return
	}
	reply(w, http.StatusOK, found)
}

func noHistory(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, v1.Error{Message: "this hub reads no history", Fix: "git log, in a clone"})
}

// unread says why there is no history.
func unread(w http.ResponseWriter, err error) {
	if refused := new(Refused); errors.As(err, &refused) {
		refuseError(w, err)
		return
	}
	refuse(w, http.StatusBadRequest, wrong(err))
}
