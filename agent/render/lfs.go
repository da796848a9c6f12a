package render

import "bytes"

// notPointer refuses a file whose content git does not have.
func notPointer(name string, data []byte) error {
	if !bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")) {
		return nil
	}
	e := place{file: name}.invalid("is a Git LFS pointer, and its content is not fetched")
	e.Fix = "commit the file itself: git lfs untrack"
	return e
}
