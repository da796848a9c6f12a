// Package upgrade owns the decision which installation moves to which version now.
//
// It refuses to know how catalogs are read, commits are made and clusters report.
package upgrade
