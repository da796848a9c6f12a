variable "name" {
  description = "The cluster's name, of which all that is made for it takes its own."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,38}[a-z0-9]$", var.name))
    error_message = "A name has 2 to 40 lower case letters, digits and hyphens, and begins with a letter."
  }
}

variable "region" {
  description = "The region to make the cluster in."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "A region is written like eu-central-1."
  }
}

variable "kubernetes_version" {
  description = "The version of Kubernetes, such as 1.34; null is what EKS takes by itself when the cluster is made."
  type        = string
  default     = null

  validation {
    condition     = var.kubernetes_version == null || can(regex("^1\\.[0-9]{2}$", var.kubernetes_version))
    error_message = "A version is written like 1.34."
  }
}

variable "network_cidr" {
  description = "The addresses of the cluster's own network: a /16 to a /20."
  type        = string
  default     = "10.0.0.0/16"

  validation {
    condition     = can(cidrhost(var.network_cidr, 0)) && try(tonumber(split("/", var.network_cidr)[1]) >= 16 && tonumber(split("/", var.network_cidr)[1]) <= 20, false)
    error_message = "The network is a CIDR between /16 and /20, such as 10.0.0.0/16."
  }
}

variable "zones" {
  description = "In how many availability zones nodes run."
  type        = number
  default     = 3

  validation {
    condition     = var.zones >= 2 && var.zones <= 3 && floor(var.zones) == var.zones
    error_message = "A cluster has nodes in two or three zones."
  }
}

variable "nat_per_zone" {
  description = "Whether each zone has its own way out, which outlives the others and costs as much again."
  type        = bool
  default     = false
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

variable "admins" {
  description = "ARNs of the IAM roles and users that administer the cluster besides the one that makes it."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for a in var.admins : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/", a))])
    error_message = "Each is the ARN of an IAM role or user, such as arn:aws:iam::123456789012:role/admin."
  }
}

variable "node_type" {
  description = "The instance type of the nodes."
  type        = string
  default     = "m7i.large"
}

variable "node_arch" {
  description = "The processor of that instance type: amd64 or arm64."
  type        = string
  default     = "amd64"

  validation {
    condition     = contains(["amd64", "arm64"], var.node_arch)
    error_message = "The processor is amd64 or arm64."
  }
}

variable "node_min" {
  description = "How many nodes there are at least."
  type        = number
  default     = 2

  validation {
    condition     = var.node_min >= 1 && floor(var.node_min) == var.node_min
    error_message = "There is one node at least."
  }
}

variable "node_max" {
  description = "How many nodes there are at most."
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

variable "log_days" {
  description = "How long the control plane's log is kept."
  type        = number
  default     = 30
}

variable "tags" {
  description = "Tags on all that is made."
  type        = map(string)
  default     = {}
}
