package api

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// packedFrom is the length from which an answer is compressed: a shorter one is one packet anyway.
const packedFrom = 1400

// packers are kept, because a new one takes more memory than an answer.
var packers = sync.Pool{New: func() any { //nolint:gochecknoglobals // memory that is used again, and holds nothing
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one
	return w
}}

// packed is an answer compressed, where the reader takes that and it is worth it, else as it was. What a list holds is nobody's secret
// from its reader, and no other site can have a browser ask for one in its person's name: its length may tell what is in it.
func packed(w http.ResponseWriter, r *http.Request, text []byte) []byte {
	header := w.Header()
	header.Add("Vary", "Accept-Encoding")
	if len(text) < packedFrom || !takesGzip(r.Header.Values("Accept-Encoding")) {
		return text
	}
	out := bytes.NewBuffer(make([]byte, 0, len(text)/4))
	packer, _ := packers.Get().(*gzip.Writer) // there are no others
	defer packers.Put(packer)
	packer.Reset(out)
	if _, err := packer.Write(text); err != nil || packer.Close() != nil {
		return text
	}
	header.Set("Content-Encoding", "gzip")
	return out.Bytes()
}

// takesGzip says whether a reader names gzip, and does not refuse it by a weight of zero.
func takesGzip(accepted []string) bool {
	for _, line := range accepted {
		for one := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(one, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			weight, given := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
			q, err := strconv.ParseFloat(weight, 64)
			return !given || err == nil && q > 0
		}
	}
	return false
}
