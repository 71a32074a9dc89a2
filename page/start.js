// SPDX-License-Identifier: Apache-2.0
"use strict";

startPage();
requestAnimationFrame(() => setTimeout(() => performance.mark("shown")));
