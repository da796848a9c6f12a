variable "name" {
  description = "The cluster's name, of which all that is made for it takes its own."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,18}[a-z0-9]$", var.name))
    error_message = "A name has 2 to 20 lower case letters, digits and hyphens, and begins with a letter."
  }
}

variable "project" {
  description = "The id of the project to make the cluster in."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "A project's id has 6 to 30 lower case letters, digits and hyphens."
  }
}

variable "region" {
  description = "The region to make the cluster in. Its control plane and nodes are in several zones of it."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "A region is written like europe-west3."
  }
}

variable "release_channel" {
  description = "By which channel GKE upgrades Kubernetes: RAPID, REGULAR or STABLE."
  type        = string
  default     = "REGULAR"

  validation {
    condition     = contains(["RAPID", "REGULAR", "STABLE"], var.release_channel)
    error_message = "The channel is RAPID, REGULAR or STABLE."
  }
}

variable "kubernetes_version" {
  description = "The least version of Kubernetes, such as 1.34; null is the channel's own."
  type        = string
  default     = null

  validation {
    condition     = var.kubernetes_version == null || can(regex("^1\\.[0-9]{2}(\\.[0-9]+(-gke\\.[0-9]+)?)?$", var.kubernetes_version))
    error_message = "A version is written like 1.34 or 1.34.1-gke.1829001."
  }
}

variable "nodes_cidr" {
  description = "The addresses of nodes."
  type        = string
  default     = "10.0.0.0/20"

  validation {
    condition     = can(cidrhost(var.nodes_cidr, 0))
    error_message = "It is a CIDR, such as 10.0.0.0/20."
  }
}

variable "pods_cidr" {
  description = "The addresses of pods: a /24 for each node."
  type        = string
  default     = "10.4.0.0/14"

  validation {
    condition     = can(cidrhost(var.pods_cidr, 0))
    error_message = "It is a CIDR, such as 10.4.0.0/14."
  }
}

variable "services_cidr" {
  description = "The addresses of services."
  type        = string
  default     = "10.8.0.0/20"

  validation {
    condition     = can(cidrhost(var.services_cidr, 0))
    error_message = "It is a CIDR, such as 10.8.0.0/20."
  }
}

variable "api_cidrs" {
  description = "Who may reach the API from outside of the network. With none it is reached from inside alone."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for c in var.api_cidrs : can(cidrhost(c, 0))])
    error_message = "Each is a CIDR, such as 203.0.113.0/24."
  }
}

variable "secrets_key" {
  description = "The Cloud KMS key that encrypts Secrets at rest beyond what Google does; null is none."
  type        = string
  default     = null

  validation {
    condition     = var.secrets_key == null || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.secrets_key))
    error_message = "A key is written like projects/P/locations/L/keyRings/R/cryptoKeys/K."
  }
}

variable "node_type" {
  description = "The machine type of the nodes."
  type        = string
  default     = "e2-standard-2"
}

variable "node_min" {
  description = "How many nodes there are at least, in all zones together."
  type        = number
  default     = 2

  validation {
    condition     = var.node_min >= 1 && floor(var.node_min) == var.node_min
    error_message = "There is one node at least."
  }
}

variable "node_max" {
  description = "How many nodes there are at most, in all zones together."
  type        = number
  default     = 5

  validation {
    condition     = var.node_max >= 1 && floor(var.node_max) == var.node_max
    error_message = "There may be one node at least."
  }
}

variable "node_disk_gib" {
  description = "How large each node's disk is."
  type        = number
  default     = 50

  validation {
    condition     = var.node_disk_gib >= 20
    error_message = "A node's disk has 20 GiB at least."
  }
}

variable "deletion_protection" {
  description = "Whether the cluster refuses to be deleted."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels on all that is made."
  type        = map(string)
  default     = {}
}
